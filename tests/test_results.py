"""Tests of what all results share: one line of repr, text for any terminal, a standalone page, and pickling."""

from __future__ import annotations

import base64
import importlib
import io
import pickle
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.nn import functional as F

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.finding import Finding, Location
from nbdebug.formatting import encodable_text
from nbdebug.report import Report
from nbdebug.result import Result, TextRepr
from nbdebug.rule_engine.crash_rules import explain_crash
from nbdebug.views import notebook_kernel
from nbdebug.views.page import static_html
from nbdebug.views.saved_output import first_lines, markdown, picture
from tests.clock import real_time
from tests.programs import PROGRAMS

TOOLS: dict[str, Callable[[Debugger], Result]] = {
    "checkup": lambda debugger: debugger.checkup("quick"),
    "watch": lambda debugger: watched(debugger),
    "overfit": lambda debugger: debugger.overfit(examples=4, steps=4),
    "lr_range": lambda debugger: debugger.lr_range(steps=10, seeds=1),
    "summary": lambda debugger: debugger.summary(),
    "compare_optimizers": lambda debugger: debugger.compare_optimizers(["yours", "SGD"], steps=10, seeds=1),
    "batch_size": lambda debugger: debugger.batch_size(seconds=0.01, noise=False),
    "repeatable": lambda debugger: debugger.repeatable(steps=2),
    "checkpoint": lambda debugger: debugger.check_checkpoint(save=lambda path: torch.save({}, path)),
    "snapshot": lambda debugger: debugger.snapshot(),
    "changes": lambda debugger: debugger.changes_since(debugger.snapshot()),
    "errors": lambda debugger: debugger.errors(),
    "explain": lambda debugger: debugger.explain(0),
    "importance": lambda debugger: debugger.importance(samples=8, repeats=1),
    "slices": lambda debugger: debugger.errors().slices(),
    "baselines": lambda debugger: debugger.errors().baselines(seconds=0.2),
    "drift": lambda debugger: debugger.importance(samples=8, repeats=1).compare(
        debugger.importance(samples=8, repeats=1)
    ),
    "pipelines": lambda debugger: nbdebug.compare_pipelines(torch.abs, torch.neg, [torch.ones(2)]),
    "data drift": lambda debugger: debugger.data(samples=40).drift,
    "crash": lambda debugger: crash_of(debugger),
    "diagnose": lambda _: nbdebug.diagnose({"loss": [1.0, 0.5, float("nan")], "val_loss": [1.0, 0.7, 0.8]}),
    "replay": lambda debugger: replay_of(debugger),
    "data": lambda debugger: debugger.data(samples=20),
    "triage": lambda debugger: debugger.triage("nan"),
    "guide": lambda debugger: debugger.guide(),
    "treatments": lambda debugger: debugger.treatments(steps=20, seeds=1),
    "profile": lambda debugger: profiled(debugger),
    "try_fix": lambda debugger: debugger.try_fix("weight decay=0.1", steps=5, seeds=2, checkup=None),
    "bisect": lambda debugger: debugger.bisect(samples=True, fails=lambda copy: True, steps=1, runs=4),
    "ablation": lambda debugger: debugger.ablation(["weight decay=0.1", "clipping=0.1"], steps=5, seeds=2),
}
SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import nbdebug

torch.manual_seed(0)
x = torch.randn(256, 8)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32)
model = nn.Sequential(nn.Linear(8, 2), nn.Softmax(1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = nn.CrossEntropyLoss()
debugger = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
print(debugger.checkup())
with debugger.watch(final_tests=False):
    for x, y in loader:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
"""


def watched(debugger: Debugger) -> Result:
    with debugger.watch(final_tests=False) as run:
        setup = debugger.setup
        for inputs, target in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(setup.eager_model(inputs), target).backward()
            setup.optimizers[0].step()
    assert run.result is not None
    return run.result


def profiled(debugger: Debugger) -> Result:
    with real_time():
        return debugger.profile(steps=4)


def compared_importance(debugger: Debugger) -> Result:
    before, now = (debugger.importance(samples=8, repeats=1) for _ in range(2))
    return now.compare(before)


def replay_of(debugger: Debugger) -> Result:
    """Run a step whose loss is not finite again, from a pickled run."""
    setup = debugger.setup
    with debugger.watch(final_tests=False) as run:
        for inputs, target in setup.train_loader:
            setup.optimizers[0].zero_grad()
            (F.cross_entropy(setup.eager_model(inputs), target) * torch.inf).backward()
    copy = pickle.loads(pickle.dumps(run))
    assert repr(copy) == repr(run)
    assert str(copy.replay()) == str(run.replay())
    return copy.replay()


def crash_of(debugger: Debugger) -> Result:
    """Explain the error of a model whose input has too few columns."""
    try:
        debugger.setup.eager_model(torch.ones(2, 1))
    except RuntimeError as error:
        return explain_crash(error)
    raise AssertionError("the model accepts any input")


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """The result of each tool on one program."""
    program = PROGRAMS["mlp"]()
    loader = program.loader()
    debugger = Debugger(program.model, loader, loader, loss_fn=program.loss_fn, optimizer=program.optimizer)
    return {name: run(debugger) for name, run in TOOLS.items()}


@pytest.mark.parametrize("name", TOOLS)
def test_repr_of_a_result_is_one_short_line(name: str, results: dict[str, Result]) -> None:
    text = repr(results[name])
    assert re.fullmatch(rf"<{type(results[name]).__name__}: .+>", text)
    assert len(text) < 200


@pytest.mark.parametrize("name", TOOLS)
def test_pickled_result_shows_the_same_text_and_page(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    copy = pickle.loads(pickle.dumps(result))
    assert str(copy) == str(result)
    assert type(copy.view()) is type(result.view())
    assert len(copy.to_frame()) == len(result.to_frame())


@pytest.mark.parametrize("name", TOOLS)
def test_page_of_a_result_is_a_document_without_network(name: str, results: dict[str, Result]) -> None:
    page = results[name].to_html()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert not re.search(r"""(src|href)=["']?https?:""", page)


def test_script_prints_a_line_of_checkup_and_watch_on_a_terminal_without_unicode() -> None:
    environment = {"PYTHONIOENCODING": "ascii:strict", "OMP_NUM_THREADS": "1", "PATH": ""}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env=environment, check=True
    )
    checkup, watch = run.stderr.splitlines()
    assert checkup.startswith("nbdebug checkup: 1 error")
    assert "L201 softmax-before-cross-entropy" in checkup
    assert watch.startswith("nbdebug watch: 8 steps, loss 0.")
    assert "L201" in watch
    assert "-> int64" in run.stdout


def test_text_for_a_terminal_has_substitutes_only_where_the_encoding_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "loss 0.5 → 0.3 · × 10 · Größe 語"
    assert encodable_text(text) == text
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert encodable_text(text) == "loss 0.5 -> 0.3 - x 10 - Größe \\u8a9e"


def test_rules_that_were_not_checked_are_one_line_of_the_text(results: dict[str, Result]) -> None:
    report: Any = results["checkup"]
    assert report.not_checked
    assert f"{len(report.not_checked)} rules not checked" in str(report).splitlines()[-1]
    assert report.not_checked[0].why not in str(report)


def test_page_of_a_clean_checkup_is_at_most_25_kb() -> None:
    program = PROGRAMS["mlp"]()
    report: Any = Debugger(program.model, program.loader(), loss_fn=program.loss_fn).checkup("quick")
    assert not report.faults
    assert report.not_checked
    assert len(static_html(report.view()).encode()) <= 25_000


def test_finding_is_one_line_in_a_list_and_shows_itself(results: dict[str, Result]) -> None:
    finding = Finding("It ends\nin softmax. " * 20, code="L201", name="softmax", severity="error", fix="return x")
    assert re.fullmatch(r"<Finding: error L201 softmax: It ends in softmax\..{80,130}…>", repr(finding))
    assert "fix    return x" in finding._repr_mimebundle_()["text/plain"]
    assert pickle.loads(pickle.dumps(finding)) == finding


def test_text_of_a_report_folds_consequences_under_their_cause() -> None:
    cause = Finding("It ends in softmax.", code="L201", name="softmax", severity="error", explains=("O503",))
    consequence = Finding("The loss is flat.", code="O503", name="flat", severity="warning", cause="Small gradients.")
    report = Report((cause, consequence), title="Checkup")
    assert "  explains warning O503 flat: The loss is flat." in str(report).splitlines()
    assert "Small gradients." not in str(report)
    assert report.faults_text == "L201 softmax (explains O503)"


@pytest.mark.parametrize("name", TOOLS)
def test_output_in_a_notebook_has_a_picture_and_ten_lines_of_text(
    name: str, results: dict[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_kernel, "in_kernel", lambda: True)
    bundle = results[name]._repr_mimebundle_()
    assert list(bundle) == ["text/plain", "image/png", "text/html"]
    *lines, trust = bundle["text/plain"].splitlines()
    assert 1 <= len(lines) <= 10
    assert lines[0] == results[name].brief_text().splitlines()[0]
    assert "jupyter trust" in trust
    assert "jupyter trust" in re.sub(r"<script.*?</script>", "", bundle["text/html"], flags=re.S)
    data = base64.b64decode(bundle["image/png"])
    assert len(data) <= 40_000
    width, height = Image.open(io.BytesIO(data)).size
    assert width >= 400
    assert height >= 40


def test_picture_of_a_result_whose_chart_fails_shows_its_text() -> None:
    def fail(axes: Any) -> None:
        axes.set_title("$broken$ $")
        raise ValueError("no chart")

    lines = ["a price of $5 and $6 語", "second line"]
    assert picture(lines, fail) == picture(lines, None)


def test_saved_text_of_many_findings_names_each_in_one_line() -> None:
    findings = [
        Finding(
            f"Fault {i}\nis here.", Location(module=f"layer{i}"), "A cause.", "A fix.", code="L201", severity="error"
        )
        for i in range(12)
    ]
    report = Report(tuple(findings))
    lines = first_lines(report.brief_text())
    assert len(lines) == 10
    assert "Fault 7 is here. (layer7)" in lines[8]
    assert lines[9] == "… 4 more lines; print() shows all of them."


@pytest.mark.parametrize("name", TOOLS)
def test_markdown_of_a_result_is_its_text_and_a_picture(name: str, results: dict[str, Result], tmp_path: Path) -> None:
    result, file = results[name], tmp_path / "chart.png"
    text = result.to_markdown(file)
    assert text.startswith(f"## {result.to_text().splitlines()[0]}\n")
    assert result.to_text().partition("\n")[2].strip("\n") in text
    assert not re.search("<(script|style|div)", text)
    assert file.exists() == result.has_chart
    if result.has_chart:
        assert text.endswith(f"![chart]({file})\n")
        assert result.to_markdown().endswith(
            f"(data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()})\n"
        )


def test_markdown_quotes_text_with_backticks() -> None:
    assert "````text\nuse ``` here\n````" in markdown("nbdebug checkup\nuse ``` here", "")


def all_subclasses(base: type) -> list[type]:
    return [kind for child in base.__subclasses__() for kind in [child, *all_subclasses(child)]]


def test_every_kind_of_result_is_one_line_in_a_list() -> None:
    for module in pkgutil.walk_packages(nbdebug.__path__, "nbdebug."):
        if module.name.startswith(("nbdebug.rules", "nbdebug.__main__")):
            continue
        absence_of_trainer = suppress(ModuleNotFoundError) if ".integrations." in module.name else nullcontext()
        with absence_of_trainer:
            importlib.import_module(module.name)
    kinds = [kind for kind in all_subclasses(TextRepr) if kind.__module__.startswith("nbdebug.")]
    assert len(kinds) >= 25
    for kind in kinds:
        assert kind.__repr__ is TextRepr.__repr__, kind


def test_marimo_shows_the_page_in_a_frame(results: dict[str, Result]) -> None:
    pytest.importorskip("marimo", reason="marimo is not installed")
    kind, frame = results["checkup"]._mime_()
    assert kind == "text/html"
    assert "<iframe" in frame
