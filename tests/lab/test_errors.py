"""The error browser in real JupyterLab: clicked, tagged, saved, opened anew, and left by its kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.lab.lab_page import LabPage
from tests.lab.server import Lab
from tests.lab.test_live_view import STATIC, kinds

Browsed = Callable[..., AbstractContextManager[LabPage]]

SETUP = """
import time
import numpy as np
import nbdebug
from nbdebug.tools.errors.tool import errors_from_predictions

rng = np.random.default_rng(0)
targets = rng.integers(0, 3, 300)
scores = rng.normal(0, 1, (300, 3)).astype(np.float32)
scores[np.arange(300), targets] += 1.5
pictures = rng.integers(0, 255, (300, 12, 12)).astype(np.uint8)
"""
SHOW = "result = errors_from_predictions(scores, targets, pictures, class_names=['a', 'b', 'c'])\nresult"
TOLD = "print(result.selected, result.tags.tagged('wrong label'), result.table.grid.counts[2, 0])"
PLACE = "[panel.content.activeCellIndex, panel.content.mode, panel.content.model.cells.length]"
BUSY = "time.sleep(3)\nprint('slept')"


@pytest.fixture
def browsed(jupyter_lab: Lab, notebook: Callable[..., str]) -> Browsed:
    """Opens a notebook in which an error browser has been made."""

    @contextmanager
    def opened(**look: Any) -> Iterator[LabPage]:
        with jupyter_lab.open(notebook(SETUP, SHOW, TOLD, BUSY), **look) as lab:
            lab.run_cell(0)
            lab.wait_idle()
            lab.run_cell(1)
            lab.wait_idle()
            cards(lab).first.wait_for()
            yield lab

    return opened


def cards(lab: LabPage) -> Any:
    """The samples in the gallery."""
    return lab.output(1).locator(".nb-e-card")


def pages(lab: LabPage) -> Any:
    """Which samples these are, of how many."""
    return lab.output(1).locator(".nb-e-pages")


def told(lab: LabPage) -> str:
    """What Python knows: selected rows, tagged rows, the count of the cell (2, 0)."""
    lab.run_cell(2)
    lab.wait_idle()
    return str(lab.output(2).inner_text()).strip()


def click(lab: LabPage, row: int, column: int) -> None:
    """A click in a cell of the overview."""
    stage = lab.output(1).locator(".nb-e-stage")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    look = stage.evaluate("node => JSON.parse(node.dataset.look)")
    x = box["x"] + look["left"] + (column + 0.5) * look["wide"] / 3
    lab.page.mouse.click(x, box["y"] + look["top"] + (row + 0.5) * look["high"] / 3)


def narrow(lab: LabPage) -> None:
    """Clicks in the cell of c that was said to be a, and waits for its samples; those of before stay until then."""
    before = pages(lab).inner_text()
    click(lab, 2, 0)
    lab.output(1).get_by_role("button", name="remove target c → a").wait_for()
    came = "([node, before]) => /^[0-9]/.test(node.innerText) && node.innerText !== before"
    lab.page.wait_for_function(came, arg=[pages(lab).element_handle(), before])


def number(card: Any) -> str:
    """The number of a sample."""
    return str(card.get_attribute("aria-label").split(",")[0].removeprefix("sample "))


def test_a_click_in_a_cell_brings_its_samples_and_what_is_tagged_comes_back(browsed: Browsed) -> None:
    with browsed() as lab:
        pages(lab).get_by_text("1–24 of").wait_for()
        narrow(lab)
        place = lab.page.evaluate(
            "[panel.content.activeCellIndex, panel.content.mode, panel.content.model.cells.length]"
        )
        cards(lab).first.focus()
        for key in ("Space", "ArrowRight", "Space", "w"):
            lab.page.keyboard.press(key)
        lab.output(1).locator(".nb-e-tag").nth(1).wait_for()
        lab.page.keyboard.press("Escape")
        lab.page.keyboard.press("ArrowLeft")
        lab.page.keyboard.press("Space")
        first, second = number(cards(lab).nth(0)), number(cards(lab).nth(1))
        assert place == lab.page.evaluate(PLACE)
        lab.page.wait_for_timeout(300)
        tagged = sorted([int(first), int(second)])
        said = told(lab)
        assert said.startswith(f"[{first}] {tagged} ")
        assert pages(lab).inner_text().endswith(f" of {said.split()[-1]}")


def test_a_click_during_another_cell_waits_for_its_end(browsed: Browsed) -> None:
    with browsed() as lab:
        pages(lab).get_by_text("1–24 of").wait_for()
        lab.run_cell(3)
        click(lab, 2, 0)
        lab.output(1).get_by_text("Waiting for the cell").wait_for()
        pages(lab).get_by_text("1–", exact=False).wait_for(timeout=10_000)
        assert lab.output(3).inner_text().strip() == "slept"


def test_a_page_that_is_loaded_anew_shows_what_was_tagged_since(browsed: Browsed) -> None:
    with browsed() as lab:
        pages(lab).get_by_text("1–24 of").wait_for()
        cards(lab).first.focus()
        lab.page.keyboard.press("w")
        lab.output(1).locator(".nb-e-tag").wait_for()
        lab.save()
        lab.load()
        lab.output(1).locator(".nb-e-tag", has_text="wrong label").wait_for()
        narrow(lab)


def test_where_the_kernel_began_anew_the_page_says_so(browsed: Browsed) -> None:
    with browsed() as lab:
        pages(lab).get_by_text("1–24 of").wait_for()
        lab.page.evaluate("() => panel.sessionContext.session.kernel.restart()")
        lab.page.wait_for_function("() => panel.sessionContext.session?.kernel?.status === 'idle'")
        click(lab, 2, 0)
        lab.output(1).get_by_text("Python is no longer available").wait_for()
        assert lab.output(1).locator("code", has_text="result.rows(cells=[(2, 0)])").is_visible()
        lab.run_cell(0)
        lab.run_cell(1)
        lab.wait_idle()
        pages(lab).get_by_text("1–24 of").wait_for()


@pytest.mark.parametrize(("theme", "width"), [("light", 700), ("dark", 1500)])
def test_saved_and_opened_without_a_kernel_it_has_its_first_samples(browsed: Browsed, theme: str, width: int) -> None:
    with browsed(theme=theme, size=(width, 1200)) as lab:
        assert kinds(lab, 1) == STATIC
        lab.reopen_without_kernel()
        cards(lab).first.wait_for()
        assert cards(lab).count() == 24
        assert "first 24 of" in pages(lab).inner_text()
        click(lab, 2, 0)
        assert lab.output(1).locator("code", has_text="result.rows(cells=[(2, 0)])").is_visible()
        assert "Error displaying widget" not in lab.page.content()


TWICE = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), 20)
before = nbdebug.errors(torch.nn.Linear(4, 3), loader, loss_fn=torch.nn.CrossEntropyLoss())
after = nbdebug.errors(torch.nn.Linear(4, 3), loader, loss_fn=torch.nn.CrossEntropyLoss())
"""


@pytest.mark.parametrize(
    ("last", "heading"), [("after.compare(before)", "Comparison of two models"), ("", "Model errors")]
)
def test_of_several_browsers_of_a_cell_the_last_one_is_shown(
    jupyter_lab: Lab, notebook: Callable[..., str], last: str, heading: str
) -> None:
    with jupyter_lab.open(notebook(SETUP, TWICE + last)) as lab:
        for cell in (0, 1):
            lab.run_cell(cell)
            lab.wait_idle()
        shown = lab.output(1).locator(".nb-e-both")
        shown.wait_for()
        assert shown.count() == 1
        assert lab.output(1).get_by_role("heading", name=heading, exact=True).count() == 1
        said = [one["data"]["text/plain"] for one in lab.outputs(1) if set(one["data"]) == {"text/plain"}]
        assert len(said) == (2 if last else 1)
        assert all(one.startswith("nbdebug errors: ") and "% of 60 samples correct" in one for one in said)
