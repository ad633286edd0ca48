from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.cli import main
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding, Location, RelatedLine
from nbdebug.result import Result
from nbdebug.rules.examples import healthy_classifier, mlp, train
from nbdebug.run_report import Subject, collect_sections
from nbdebug.run_report.ml_test_score import QUESTIONS, answer_questions
from nbdebug.run_report.recommendations import recommend
from tests.browser import PagePool

SECRET = 731_573.25  # a value of one sample


@pytest.fixture(scope="module")
def debugger() -> Debugger:
    setup = healthy_classifier()
    debugger = Debugger.of(setup)
    debugger.checkup("quick")
    debugger.overfit(examples=4, steps=20)
    with debugger.watch():
        train(setup, 2)
    return debugger


class PageReader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_page_is_self_contained_and_needs_no_script(debugger: Debugger, tmp_path: Path) -> None:
    path = debugger.report(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    tags = PageReader(text).tags
    assert not [tag for tag, _ in tags if tag in ("script", "link", "iframe", "object")]
    addresses = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(value and value.startswith(("data:image/png", "#")) for value in addresses)
    assert "url(" not in text
    pictures = [attributes for tag, attributes in tags if tag == "img"]
    assert len(pictures) >= 2
    assert all(picture["alt"] for picture in pictures)
    for title in ("Summary", "Findings", "Recommendations", "Overfit", "Watch", "Environment", "ML Test Score"):
        assert re.search(f"<h2 [^>]*>{title}</h2>", text)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(("width", "color_scheme"), [(1200, "light"), (700, "dark")])
def test_page_opens_from_disk_without_network(
    debugger: Debugger, tmp_path: Path, page_pool: PagePool, width: int, color_scheme: str
) -> None:
    path = debugger.report(tmp_path / "report.html")
    requests: list[str] = []
    with page_pool.page(width, color_scheme, offline=True) as page:
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        images = page.locator("img")
        widths = images.evaluate_all("images => images.map(image => image.naturalWidth)")
        assert len(widths) >= 2
        assert all(widths)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert {url.partition(":")[0] for url in requests} <= {"file", "data", "about"}


def test_markdown_and_notebook(debugger: Debugger, tmp_path: Path) -> None:
    markdown = debugger.report(str(tmp_path / "report.md")).read_text(encoding="utf-8")
    assert markdown.startswith("# Training report: ")
    assert "data:image/png;base64," in markdown
    notebook = json.loads(debugger.report(tmp_path / "report.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    attachments = [name for cell in cells for name in cell.get("attachments", {})]
    assert attachments
    assert all(f"attachment:{name}" in "".join(cell["source"] for cell in cells) for name in attachments)


def test_notebook_is_valid(debugger: Debugger, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(debugger.report(tmp_path / "report.ipynb"), as_version=4))


def test_values_of_samples_are_left_out_unless_wanted(tmp_path: Path) -> None:
    x = torch.randn(64, 4)
    x[5, 2] = SECRET
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 16)
    debugger = Debugger(mlp(4, 8, 2), loader, loader, loss_fn=nn.CrossEntropyLoss())
    debugger.data(samples=None)
    debugger.explain(5)
    private = debugger.report(tmp_path / "private.html").read_text(encoding="utf-8")
    assert "731573" not in private.replace(",", "")
    assert "samples=True" in private
    assert len(debugger.report(tmp_path / "all.html", samples=True).read_text(encoding="utf-8")) > len(private)


def test_text_of_findings_is_escaped(tmp_path: Path) -> None:
    debugger = Debugger.of(healthy_classifier())
    report = debugger.checkup("quick")
    hostile = Finding("<script>alert(1)</script> | `x`", code="L201", name="<b>", severity="error", fix="a <- b")
    object.__setattr__(report, "findings", (hostile,))
    for suffix in (".html", ".md", ".ipynb"):
        text = debugger.report(tmp_path / f"r{suffix}").read_text(encoding="utf-8")
        assert "<script>" not in text.replace("\\\\<", "").replace("\\<", "")


def test_related_line_of_finding_is_shown_without_its_folder(tmp_path: Path) -> None:
    debugger = Debugger.of(healthy_classifier())
    shift = Location(file="/home/me/project/data.py", line=3, source="    y = x[1:]")
    finding = Finding("It shifts.", related=(RelatedLine(shift, "<b> shifts here"),), code="D126", severity="error")
    object.__setattr__(debugger.checkup("quick"), "findings", (finding,))
    text = debugger.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<p>See: data.py, line 3: &lt;b&gt; shifts here</p>" in text
    assert "y = x[1:]" in text
    assert "/home/me" not in text


def test_folders_of_the_machine_are_left_out(tmp_path: Path) -> None:
    setup = healthy_classifier()
    debugger = Debugger.of(setup)
    debugger.checkup("quick")
    with debugger.watch():
        for x, y in [*setup.train_loader] * 3:
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            setup.optimizers[0].step()
    text = debugger.report(tmp_path / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert "O505" in text
    assert f"{Path(__file__).name}, line" in text
    assert str(Path(__file__).parent) not in text
    lines = "\n".join(finding.summary_line for finding in debugger.findings)
    assert str(Path(__file__).parent) in lines
    assert str(Path(__file__).parent) not in str(collect_sections(Subject(setup, debugger.findings, {}, lines)))


def test_refusals(debugger: Debugger, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"path is 'report\.pdf'; expected a name that ends in \.html, \.md, \.ipynb"):
        debugger.report("report.pdf")
    with pytest.raises(SetupError, match="expected a file that can be written"):
        debugger.report(tmp_path / "absent" / "report.html")
    with pytest.raises(SetupError, match="option of report is 'sample'"):
        debugger.report(**{"sample": True})


def test_report_of_a_saved_record_from_the_shell(
    debugger: Debugger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert debugger.watched is not None
    assert debugger.watched.result is not None
    debugger.watched.result.record.save(tmp_path / "run.nbd")
    output = tmp_path / "run.html"
    assert main(["report", str(tmp_path / "run.nbd"), "--output", str(output)]) == 0
    assert str(output) in capsys.readouterr().out
    text = output.read_text(encoding="utf-8")
    assert "loss by step" in text
    assert base64.b64encode(b"\x89PNG").decode()[:5] in text
    assert main(["report", str(tmp_path / "absent.nbd")]) == 2


def test_questions_of_the_ml_test_score() -> None:
    assert len(QUESTIONS) == 28
    parts = [question.part for question in QUESTIONS]
    assert [parts.count(part) for part in ("data", "model", "infrastructure", "monitoring")] == [7, 7, 7, 7]
    answers = answer_questions([], {"R901", "R902"}, {"lr_range", "repeatable"})
    by_name = {(item.question.part, item.question.number): item for item in answers}
    assert by_name["infrastructure", 1].answer == "shown"
    assert by_name["model", 3].answer == "shown"
    assert by_name["monitoring", 5].answer == "open"  # nothing was watched
    assert sum(item.answer == "shown" for item in by_name.values()) == 2
    fault = Finding("bad", code="R901", name="unseeded", severity="note")
    answers = answer_questions([fault], {"R901"}, ())
    assert [item.answer for item in answers if "R901" in item.question.rules] == ["contradicted"]


def test_recommendations_put_causes_and_errors_first() -> None:
    note = Finding("n", code="T606", name="plateau", severity="note", fix="lower it")
    cause = Finding("c", code="O501", name="lr-too-high", severity="error", fix="lr = 1", explains=("T602",))
    consequence = Finding("d", code="T602", name="diverging-loss", severity="error", fix="x = 2")
    advice = recommend([note, consequence, cause], {})
    assert [item.action for item in advice] == ["lr = 1", "lower it"]
    assert advice[0].cost == "some lines of code"
    assert advice[1].cost == "a decision about data or model"


@dataclass(frozen=True)
class Trial(Result):
    """A result of an experiment, as a tool that compares before and after returns it."""

    helps: bool
    code: str = "optimizer.param_groups[0]['lr'] = 0.01"
    headline: str = "the accuracy rises by 0.2"

    def to_text(self) -> str:
        return self.headline


@pytest.mark.parametrize("helps", [True, False])
def test_experiments_with_a_measured_gain_come_first(helps: bool) -> None:
    fault = Finding("c", code="O501", name="lr-too-high", severity="error", fix="lr = 1")
    advice = recommend([fault], {"try_fix": Trial(helps)})
    assert [item.gain for item in advice] == ["measured", "large (expected)"][not helps :]
