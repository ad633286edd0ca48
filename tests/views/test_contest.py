"""Views of the optimizer comparison and the batch-size finder, static and live."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from nbdebug.tools.batch_size.view import BatchSizeRow as SizeRow
from nbdebug.tools.batch_size.view import BatchSizeView
from nbdebug.tools.compare_optimizers.view import CandidatePanel, OptimizerComparisonView
from nbdebug.views.page import View, static_html

from .conftest import Open
from .samples import NASTY
from .test_live_modules import Page


def panel(name: str, rank: int, speed: float, **given: Any) -> CandidatePanel:
    """A candidate that falls at a certain speed."""
    x = range(1, 101, 2)
    middle = [0.2 + 2 * math.exp(-speed * i) for i in x]
    low, high = ([value + by for value in middle] for by in (-0.1, 0.1))
    looks = [20, 40, 60, 80, 100]
    validation = [middle[i // 2 - 1] + 0.05 for i in looks]
    ends = {"train": middle[-1], "val": validation[-1], "error": 0.02}
    known = {"rate": "lr 0.01, as passed", "words": "learns, stable", "tone": "good", **ends, **given}
    return CandidatePanel(
        name, rank=rank, x=x, middle=middle, low=low, high=high, looks=looks, validation=validation, **known
    )


def contest(**given: Any) -> OptimizerComparisonView:
    """Five candidates, one of which is lost."""
    lost = CandidatePanel(
        "SGD, one-cycle", "lr 30", 5, "diverges with 3 of 3 seeds", "error", x=[1, 2, 3], middle=[2, 90, 1e9]
    )
    panels = [panel("AdamW", 1, 0.1), panel("Adam", 1, 0.09), panel("SGD+momentum", 3, 0.05), panel("SGD", 4, 0.02)]
    known: dict[str, Any] = {
        "panels": [*panels, replace(lost, low=lost.middle, high=lost.middle)],
        "verdict": "tie",
        "headline": "AdamW and Adam are tied.",
        "reasons": ["your optimizer is worse"],
        "notes": ["all candidates start from your weights"],
        "code": "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)",
        "steps": 100,
        "judged_by": "val",
    }
    return OptimizerComparisonView(**{**known, **given})


def sizes(**given: Any) -> BatchSizeView:
    """Five sizes, one suggested and one the user's own."""
    rows = [
        SizeRow(8 * 2**i, 2**20 * (4 + 2**i), f"{4 + 2**i} MiB", 800 * (i + 1), 700, 900, 10.0 * 2**i) for i in range(5)
    ]
    known: dict[str, Any] = {
        "rows": rows,
        "suggestion": 64,
        "now": 32,
        "headline": "Suggested batch size 64.",
        "code": "batch_size=64",
    }
    return BatchSizeView(**{**known, "reasons": ["it is enough"], "notes": ["measured"], **given})


@pytest.mark.parametrize("view", [contest, sizes])
@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_no_page_scrolls_sideways(open_page: Open, view: Any, width: int, dark: bool) -> None:
    page = open_page(view(), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("view", [contest, sizes])
def test_without_scripts_the_content_is_plain_html(open_page: Open, view: Any) -> None:
    page = open_page(view(), scripts=False)
    assert page.locator(".nb-plain table").is_visible()
    assert len(static_html(view())) < 40_000


NASTY_PANEL = dict.fromkeys(("name", "rate", "words"), NASTY)
NASTY_TEXTS: dict[str, Any] = dict.fromkeys(("title", "status", "headline", "code"), NASTY)
NASTY_LISTS: dict[str, Any] = {"reasons": [NASTY], "notes": [NASTY]}


@pytest.mark.parametrize(
    "view",
    [
        contest(**NASTY_TEXTS, **NASTY_LISTS, panels=[replace(panel("", 1, 0.1), **NASTY_PANEL)]),
        sizes(**NASTY_TEXTS, **NASTY_LISTS, rows=[SizeRow(8, 1, NASTY, 1, 1, 1, 1)]),
    ],
)
def test_text_from_data_never_becomes_markup(open_page: Open, view: View) -> None:
    page = open_page(view)
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert NASTY in page.locator("body").inner_text()


def test_each_candidate_has_its_picture_on_the_same_axes(open_page: Open) -> None:
    page = open_page(contest())
    pictures = page.locator("canvas")
    assert pictures.count() == 5
    tops = {round(box["y"]) for box in (pictures.nth(i).bounding_box() for i in range(3))}
    assert len(tops) == 1
    assert "AdamW, learns, stable: training loss from 2.0" in pictures.first.get_attribute("aria-label")
    rows = page.locator("tbody tr").all_inner_texts()
    assert len(rows) == 5
    assert "± 0.02" in rows[0]


def test_a_pointed_step_is_read_in_every_picture(open_page: Open) -> None:
    page = open_page(contest())
    page.locator("canvas").first.hover()
    said = page.locator(".nb-note", has_text="step").all_inner_texts()
    assert len([one for one in said if one.startswith("step ")]) == 5
    assert "no value" in said[-1]
    page.mouse.move(0, 0)
    assert page.get_by_text("lr 30", exact=True).count() == 2


def test_the_keyboard_reads_values_too(open_page: Open) -> None:
    page = open_page(contest())
    page.locator("canvas").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.get_by_text("step 7: ").count() == 4
    page.keyboard.press("Escape")
    assert page.get_by_text("step 7: ").count() == 0


def test_the_logarithm_is_offered_and_can_be_left(open_page: Open) -> None:
    page = open_page(contest())
    button = page.get_by_role("button", name="logarithmic axis")
    before = button.get_attribute("aria-pressed")
    button.click()
    assert button.get_attribute("aria-pressed") != before


def test_a_live_contest_follows_its_runs(page: Any) -> None:
    waiting = [CandidatePanel("AdamW", "learning rate to be determined", words="not run", tone="soft")]
    begun = {"verdict": "", "headline": "", "reasons": (), "notes": (), "code": "", "stoppable": True}
    live = Page(page, contest(panels=waiting, **begun))
    assert page.locator(".nb-stop").is_visible()
    assert page.locator(".nb-banner").count() == 0
    live.emit({"state": contest(**begun, status="AdamW, seed 1").snapshot()})
    assert page.locator("canvas").count() == 5
    assert "AdamW, seed 1" in page.locator(".nb-status").inner_text()
    live.emit({"state": contest().snapshot()})
    assert "are tied" in page.locator(".nb-banner").inner_text()


def test_the_suggested_size_is_marked(open_page: Open) -> None:
    page = open_page(sizes())
    rows = page.locator("tbody tr")
    assert rows.count() == 5
    assert "suggested" in rows.nth(3).inner_text()
    assert "yours" in rows.nth(2).inner_text()
    bars = page.locator(".nb-part")
    assert bars.count() == 10
    assert bars.last.is_visible()


def test_a_live_search_gains_rows(page: Any) -> None:
    whole = sizes()
    live = Page(page, sizes(rows=whole.rows[:1], headline="", code="", suggestion=None, stoppable=True))
    assert page.locator("tbody tr").count() == 1
    live.emit({"state": whole.snapshot()})
    assert page.locator("tbody tr").count() == 5
