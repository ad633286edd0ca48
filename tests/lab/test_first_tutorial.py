"""The first tutorial, as a new user meets it: opened and run in JupyterLab, saved, opened anew."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from nbdebug import demo
from tests.lab.server import Lab

VIEWS = ["findings", "overfit", "findings", "overfit", "curves", "findings"]


@pytest.fixture
def tutorial(jupyter_lab: Lab) -> str:
    """The name of a copy on the server."""
    shutil.copyfile(demo.tutorial_path(), jupyter_lab.notebooks / demo.FIRST_TUTORIAL)
    return demo.FIRST_TUTORIAL


def verdicts(lab: Any) -> list[str]:
    """What the two checkups, the two overfit tests and the rules over the run say, in order."""
    cards = lab.page.locator(".jp-Notebook .nb-banner, .jp-Notebook .nb-card")
    return [re.sub(r"\s+", " ", text) for text in cards.all_inner_texts()]


def check(lab: Any) -> None:
    """That every view of the notebook comes up and says what it should."""
    lab.page.locator(".jp-Notebook .nb-plot canvas").nth(2).wait_for()
    assert lab.page.locator(".jp-Notebook .nbdebug").count() == len(VIEWS)
    first, failed, clean, passed, run = verdicts(lab)
    assert "L201" in first
    assert "return F.softmax(x, dim=1)" in first
    assert "Fail" in failed
    assert "Nothing found" in clean
    assert "Pass" in passed
    assert "T614" in run


def test_the_committed_outputs_can_be_read_before_they_are_trusted(jupyter_lab: Lab, tutorial: str) -> None:
    with jupyter_lab.open(tutorial, size=(1200, 7000)) as lab:
        lab.page.locator(".jp-Notebook").get_by_text("110 steps").first.wait_for()
        text = lab.page.inner_text(".jp-Notebook")
        for said in ("L201", "return F.softmax(x, dim=1)", "fail: The loss reached", "pass: The examples", "110 steps"):
            assert said in text
        assert lab.page.locator(".jp-Notebook canvas").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_committed_outputs_show_without_running_anything(jupyter_lab: Lab, tutorial: str, theme: str) -> None:
    with jupyter_lab.open(tutorial, theme=theme, size=(1200, 7000)) as lab:
        lab.trust()
        check(lab)


def test_it_runs_from_top_to_bottom_and_opens_again_without_a_kernel(jupyter_lab: Lab, tutorial: str) -> None:
    with jupyter_lab.open(tutorial, size=(1200, 7000)) as lab:
        lab.run_all()
        lab.wait_idle(120)
        check(lab)
        assert not re.search(r"Traceback|Error displaying widget", lab.page.inner_text(".jp-Notebook"))
        lab.reopen_without_kernel()
        check(lab)


def test_its_committed_outputs_are_static_pages() -> None:
    notebook: Any = nbformat.read(demo.tutorial_path(), as_version=4)
    assert "widgets" not in notebook.metadata
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [output["data"] for output in outputs if "nbdebug" in output.get("data", {}).get("text/html", "")]
    assert len(pages) == len(VIEWS)
    assert all(set(page) == {"text/plain", "text/html"} for page in pages)
    assert all(len(page["text/html"]) < 200_000 for page in pages)
    assert not [output for output in outputs if output["output_type"] == "error"]


def test_the_demo_page_complains_of_nothing_and_asks_nobody(page: Any, tmp_path: Path) -> None:
    report, asked = tmp_path / "report.html", []
    report.write_text(demo.notebook_html(nbformat.read(demo.tutorial_path(), as_version=4)), encoding="utf-8")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.locator(".nb-plot canvas").last.wait_for()
    assert [url for url in asked if not url.startswith("blob:")] == [report.as_uri()]
