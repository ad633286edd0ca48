"""Tests of the page of a journal in a browser: forms by keyboard, drafts while entries arrive, and no scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbdebug.journal import Journal
from nbdebug.views.page import static_html
from tests.browser import answer_requests

from .conftest import OpenPage
from .error_browser_pages import FAKE_KERNEL


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal().open(tmp_path / "journal.md", problem="The loss oscillates <b>.")
    journal.hypothesis("the rate is too high", prior=0.6)
    journal.experiment("rate 0.1 → 0.01", before="2.3", hypothesis="H1")
    return journal


def connect(page: Any, journal: Journal, folder: Path) -> None:
    """Open the page of a journal, which answers its requests."""
    file = folder / "journal.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(journal.view(), "result"), encoding="utf-8")
    page.set_default_timeout(10_000)
    page.goto(file.as_uri())

    def answer(text: str) -> str:
        try:
            return json.dumps(journal.answer(json.loads(text)))
        except Exception as error:  # as the kernel does
            return json.dumps({"trouble": str(error)})

    answer_requests(page, answer)
    page.evaluate(FAKE_KERNEL)
    page.get_by_text("Add a hypothesis").first.wait_for()


def test_entries_are_added_by_keyboard(page: Any, journal: Journal, tmp_path: Path) -> None:
    connect(page, journal, tmp_path)
    page.get_by_text("Add a hypothesis").first.press("Enter")
    page.get_by_role("textbox", name="Claim").press_sequentially("the labels are wrong")
    page.get_by_role("spinbutton", name="Prior").fill("0.2")
    page.keyboard.press("Enter")
    page.get_by_text("the labels are wrong").wait_for()
    assert page.get_by_role("textbox", name="Claim").input_value() == ""

    page.get_by_label("Status of H2").select_option("refuted")
    page.get_by_role("form", name="Decide H2").get_by_role("textbox").fill("no suspect label")
    page.keyboard.press("Enter")
    page.get_by_text("refuted: no suspect label").wait_for()

    form = page.get_by_role("form", name="Conclude E1")
    form.get_by_role("textbox", name="After").fill("0.4")
    form.get_by_role("textbox", name="Conclusion").fill("it falls")
    form.get_by_role("combobox").select_option("supported")
    form.get_by_role("button").press("Enter")
    page.get_by_text("Conclusion: it falls").wait_for()
    assert form.count() == 0
    assert [item.status for item in Journal().open(tmp_path / "journal.md").hypotheses] == ["supported", "refuted"]


def test_drafts_survive_new_entries_and_refusals_are_shown(page: Any, journal: Journal, tmp_path: Path) -> None:
    connect(page, journal, tmp_path)
    draft = page.get_by_role("form", name="Conclude E1").get_by_role("textbox", name="Conclusion")
    draft.fill("half a sen")
    journal.add_result("checkup", "1 error", {})
    page.evaluate("state => dispatchEvent(new CustomEvent('nbdebug-answer', {detail: {to: 'result', state}}))",
                  journal.view().state())  # fmt: skip
    page.get_by_text("Results and notes (1)").wait_for()
    assert draft.input_value() == "half a sen"
    assert draft.evaluate("node => node === document.activeElement")

    page.get_by_text("Add an experiment").first.click()
    page.get_by_role("form", name="Add an experiment").get_by_label("The one change").fill("rate\nbatch size")
    page.get_by_role("button", name="Add an experiment").click()
    page.get_by_text("Two things changed at once").wait_for()
    journal.close()
    draft.press("Enter")
    page.get_by_text("journal is not open").wait_for()
    page.evaluate("restart()")
    page.get_by_text("Add an experiment").first.wait_for(state="hidden")


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1200, False)])
def test_saved_page_shows_the_journal_without_forms(
    open_page: OpenPage, journal: Journal, width: int, dark: bool
) -> None:
    page = open_page(journal.view(), width=width, dark=dark)
    assert "The loss oscillates <b>." in page.locator("body").inner_text()
    assert not page.locator("form:visible").count()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    text = open_page(journal.view(), scripts=False).locator(".nb-plain").inner_text()
    for excerpt in ("The loss oscillates <b>.", "○ H1 open: the rate is too high prior 0.6", "E1: rate 0.1 → 0.01"):
        assert excerpt in text
