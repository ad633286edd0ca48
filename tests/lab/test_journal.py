"""Test of the journal in JupyterLab: a form writes to the file, and a tool that runs later adds to the page."""

from __future__ import annotations

from pathlib import Path

from tests.lab.lab_page import OpenNotebook
from tests.lab.server import LabServer
from tests.lab.test_guide import SETUP


def test_forms_write_to_the_file_and_tools_add_to_the_page(open_notebook: OpenNotebook, jupyter_lab: LabServer) -> None:
    display = "journal = dbg.journal.open('page_journal.md', problem='The loss is flat.')\njournal"
    with open_notebook(SETUP, display, "dbg.checkup('quick')\nNone", size=(1200, 1400)) as lab:
        lab.run_cells(0, 1)
        page = lab.output(1)
        page.get_by_text("Add a hypothesis").first.click()
        page.get_by_role("textbox", name="Claim").press_sequentially("a softmax comes before the loss")
        page.get_by_role("textbox", name="Claim").press("Enter")
        page.get_by_text("a softmax comes before the loss").wait_for()
        lab.run_cells(2)
        page.get_by_text("Results and notes (1)").wait_for()
        page.get_by_label("Status of H1").select_option("supported")
        page.get_by_role("button", name="Decide H1").click()
        page.get_by_text("✓ supported").wait_for()
    text = Path(jupyter_lab.notebooks, "page_journal.md").read_text(encoding="utf-8")
    assert "## H1: a softmax comes before the loss" in text
    assert "## H1 is supported" in text
