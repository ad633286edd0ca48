"""Tests of the sources of the site: its tables of contents, its generated pages, and the rule that it writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import nbdebug
from docs.rule_pictures import run_section
from docs.site_pages import ROOT, api_page, example_source, rule_page, symptom_page, write_pages
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.triage.pattern import load_patterns
from nbdebug.views import page as pages
from tests.axe import find_barriers
from tests.clock import real_time


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_pages(folder)
    return folder


def test_every_page_and_notebook_is_in_a_table_of_contents(folder: Path) -> None:
    listed: set[Path] = {folder / "index.md"}
    for page in ("index.md", "rules.md", "clinic.md"):
        blocks = re.findall(r"^```\{toctree\}\n(.+?)^```", (folder / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
        entries = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
        listed |= {path for entry in entries for path in folder.glob(f"{_target(entry)}.*")}
    pages = {path for suffix in ("md", "ipynb") for path in folder.rglob(f"*.{suffix}")}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= {path.name for path in pages}
    assert pages - listed == set()


def _target(entry: str) -> str:
    """Return the page of an entry, which may have a title: ``title <page>``."""
    return entry.partition("<")[2].strip(">") or entry


def test_every_rule_has_a_page_with_its_examples(folder: Path) -> None:
    rules = rule_registry.load_rules()
    assert {path.stem for path in (folder / "rules").iterdir()} == rules.keys()
    for rule in rules.values():
        page = rule_page(rule)
        assert page.startswith(f"# {rule.full_page}")
        assert "\ndef bad" in page, rule.code
        assert "\ndef good" in page, rule.code


def test_run_of_examples_shows_the_finding_both_losses_and_what_was_measured(page: Any, tmp_path: Path) -> None:
    section = run_section("G402")
    assert "On the bad example, the rule reports:\n\n```text\nwarning G402 saturated-activation: 95%" in section
    assert "On the good example, the rule reports nothing." in section
    assert "Share: 0.9531 in the bad example, 0.01562 in the good one." in section
    assert str(ROOT) not in section
    page.set_content(section)
    assert page.get_by_role("img").get_attribute("aria-label").startswith("Loss of the bad example in 40 steps")
    assert {"loss", "bad", "good", "share", "0.9531"} <= set(page.locator("svg text").all_text_contents())


def test_run_of_an_example_that_raises_shows_the_step_and_the_exception() -> None:
    section = run_section("X1001")
    assert "```text\nerror X1001 linear-size-mismatch: The layer module 0 takes 5 features" in section
    assert "A plain loop over the bad example raises RuntimeError. Loss of the good example in 40 steps" in section
    assert ">RuntimeError</text>" in section


def test_run_of_a_rule_on_time_shows_the_time_of_a_sample() -> None:
    with real_time():
        assert "Milliseconds per sample: " in run_section("P808")


def test_example_has_the_definitions_that_it_uses_and_no_others() -> None:
    source = example_source(find_rule("D115").module, "bad")
    assert re.findall(r"^def (\w+)", source, re.MULTILINE) == ["_setup_with_leak", "bad"]


def test_rows_of_rules_link_to_their_pages(folder: Path) -> None:
    assert "| [D115](rules/D115.md) | target-leak |" in (folder / "rules.md").read_text("utf-8")


def test_faq_has_every_symptom_with_every_cause() -> None:
    page = symptom_page()
    causes = [cause for pattern in load_patterns() for cause in pattern.causes]
    assert [pattern.symptom for pattern in load_patterns() if f"## {pattern.symptom}\n" not in page] == []
    assert [cause.name for cause in causes if f"| {cause.name} | " not in page] == []
    assert " |  |" not in page


def test_api_page_has_every_public_name() -> None:
    documented = re.findall(r"^\.\. auto\w+:: nbdebug\.(\w+)$", api_page(), re.MULTILINE)
    assert sorted(documented) == sorted(nbdebug.__all__)


def code_blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in a language, in their order."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.+?)^```", text, re.DOTALL | re.MULTILINE)


def run_page(page: str) -> dict[str, Any]:
    """Execute the Python code of a page from top to bottom, and return its names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in code_blocks(page, "python"):
        exec(compile(block, page, "exec", dont_inherit=True), names)
    return names


def test_code_of_the_page_on_writing_rules_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_registry, "_RULES", dict(rule_registry.load_rules()))
    run_page("writing_rules.md")
    assert find_rule("M901").name == "dropout-before-norm"


@pytest.mark.parametrize("page", ["writing_adapters.md", "architecture.md"])
def test_code_of_page_runs(page: str) -> None:
    run_page(page)


def test_code_of_the_page_on_trackers_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    monkeypatch.chdir(tmp_path)
    assert run_page("trackers.md")["diagnosis"].curves.unit == "step"


def test_view_of_the_page_on_writing_views_is_drawn(page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nbdebug"
    (package / "tools/labels").mkdir(parents=True)
    (package / "views").symlink_to(pages.PACKAGE_FOLDER / "views")
    (package / "tools/labels/page.js").write_text(code_blocks("writing_views.md", "javascript")[0], "utf-8")
    monkeypatch.setattr(pages, "PACKAGE_FOLDER", package)
    file = tmp_path / "page.html"
    file.write_text(run_page("writing_views.md")["page"], "utf-8")
    page.goto(file.as_uri())
    page.locator("progress").first.wait_for()
    assert page.get_by_role("row").all_inner_texts()[1:] == ["cat\t\t5", "dog\t\t3", "<b>fox</b>\t\t1"]
    assert page.locator("progress").last.evaluate("node => node.value") == 0.2
    assert find_barriers(page) == []
