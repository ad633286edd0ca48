"""Tests of the first tutorial in JupyterLab: committed outputs, a run from top to bottom, and its HTML page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from nbdebug import demo
from tests.lab.lab_page import LabPage
from tests.lab.server import LabServer

VIEWS = ["findings", "overfit", "findings", "overfit", "curves", "findings"]


@pytest.fixture
def tutorial(jupyter_lab: LabServer) -> str:
    """Copy the first tutorial to the server and return its name."""
    shutil.copyfile(demo.tutorial_path(), jupyter_lab.notebooks / demo.FIRST_TUTORIAL)
    return demo.FIRST_TUTORIAL


def banner_and_card_texts(lab: LabPage) -> list[str]:
    """The texts of the two checkups, the two overfit tests and the findings of the run, in order."""
    cards = lab.page.locator(".jp-Notebook .nb-banner, .jp-Notebook .nb-card")
    return [re.sub(r"\s+", " ", text) for text in cards.all_inner_texts()]


def check_views(lab: LabPage) -> None:
    """Check that all views are drawn with their verdicts."""
    lab.page.locator(".jp-Notebook .nb-plot canvas").nth(2).wait_for()
    assert lab.page.locator(".jp-Notebook .nbdebug[data-view]").count() == len(VIEWS)
    faulty_checkup, failed_overfit, clean_checkup, passed_overfit, run = banner_and_card_texts(lab)
    assert "L201" in faulty_checkup
    assert "return F.softmax(x, dim=1)" in faulty_checkup
    assert "Fail" in failed_overfit
    assert "Nothing found" in clean_checkup
    assert "Pass" in passed_overfit
    assert "T614" in run


def test_committed_outputs_of_untrusted_tutorial_show_text_only(jupyter_lab: LabServer, tutorial: str) -> None:
    with jupyter_lab.open(tutorial, size=(1200, 7000)) as lab:
        lab.page.locator(".jp-Notebook").get_by_text("110 steps").first.wait_for()
        text = lab.page.inner_text(".jp-Notebook")
        for excerpt in (
            "L201",
            "return F.softmax(x, dim=1)",
            "fail: The loss reached",
            "pass: The examples",
            "110 steps",
        ):
            assert excerpt in text
        assert lab.page.locator(".jp-Notebook canvas").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_committed_outputs_of_trusted_tutorial_are_drawn_without_run(
    jupyter_lab: LabServer, tutorial: str, theme: str
) -> None:
    with jupyter_lab.open(tutorial, theme=theme, size=(1200, 7000)) as lab:
        lab.trust()
        check_views(lab)


def test_tutorial_runs_to_its_end_and_reopens_without_kernel(jupyter_lab: LabServer, tutorial: str) -> None:
    with jupyter_lab.open(tutorial, size=(1200, 7000)) as lab:
        lab.run_all()
        lab.wait_idle(120)
        check_views(lab)
        assert not re.search(r"Traceback|Error displaying widget", lab.page.inner_text(".jp-Notebook"))
        lab.reopen_without_kernel()
        check_views(lab)


def test_demo_page_has_no_error_and_loads_nothing_else(page: Any, tmp_path: Path) -> None:
    report, urls = tmp_path / "report.html", []
    report.write_text(demo.notebook_html(nbformat.read(demo.tutorial_path(), as_version=4)), encoding="utf-8")
    page.on("request", lambda request: urls.append(request.url))
    page.goto(report.as_uri())
    page.locator(".nb-plot canvas").last.wait_for()
    assert [url for url in urls if not url.startswith("blob:")] == [report.as_uri()]
