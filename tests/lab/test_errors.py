"""Tests of the error browser in JupyterLab: clicks, tags, reloads, kernel restarts and saved notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.charts import STATIC_FORMATS
from tests.lab.error_browser import (
    click_matrix_cell,
    gallery_cards,
    gallery_range,
    sample_index,
    select_confusion_of_c_as_a,
)
from tests.lab.lab_page import LabPage, OpenNotebook

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
PRINT_STATE = "print(result.selected, result.tags.tagged('wrong label'), result.table.grid.counts[2, 0])"
BUSY = "time.sleep(3)\nprint('slept')"


@pytest.fixture
def open_errors(open_notebook: OpenNotebook) -> OpenNotebook:
    """Open a notebook whose second cell has shown an error browser."""

    @contextmanager
    def show(**appearance: Any) -> Iterator[LabPage]:
        with open_notebook(SETUP, SHOW, PRINT_STATE, BUSY, **appearance) as lab:
            lab.run_cells(0, 1)
            gallery_cards(lab).first.wait_for()
            yield lab

    return show


def kernel_state(lab: LabPage) -> str:
    """The selected rows, the tagged rows and the count of the cell (2, 0) in the kernel."""
    lab.run_cells(2)
    return str(lab.output(2).inner_text()).strip()


def test_click_in_matrix_shows_samples_and_tags_reach_kernel(open_errors: OpenNotebook) -> None:
    with open_errors() as lab:
        gallery_range(lab).get_by_text("1–24 of").wait_for()
        select_confusion_of_c_as_a(lab)
        focus = lab.focus_state()
        gallery_cards(lab).first.focus()
        for key in ("Space", "ArrowRight", "Space", "w"):
            lab.page.keyboard.press(key)
        lab.output(1).locator(".nb-e-tag").nth(1).wait_for()
        lab.page.keyboard.press("Escape")
        lab.page.keyboard.press("ArrowLeft")
        lab.page.keyboard.press("Space")
        first, second = sample_index(gallery_cards(lab).nth(0)), sample_index(gallery_cards(lab).nth(1))
        assert lab.focus_state() == focus
        lab.page.wait_for_timeout(300)
        tagged = sorted([int(first), int(second)])
        state = kernel_state(lab)
        assert state.startswith(f"[{first}] {tagged} ")
        assert gallery_range(lab).inner_text().endswith(f" of {state.split()[-1]}")


def test_click_during_running_cell_waits_for_its_end(open_errors: OpenNotebook) -> None:
    with open_errors() as lab:
        gallery_range(lab).get_by_text("1–24 of").wait_for()
        lab.run_cell(3)
        click_matrix_cell(lab, 2, 0)
        lab.output(1).get_by_text("Waiting for the cell").wait_for()
        gallery_range(lab).get_by_text("1–", exact=False).wait_for(timeout=10_000)
        assert lab.output(3).inner_text().strip() == "slept"


def test_reloaded_page_shows_tags_set_before(open_errors: OpenNotebook) -> None:
    with open_errors() as lab:
        gallery_range(lab).get_by_text("1–24 of").wait_for()
        gallery_cards(lab).first.focus()
        lab.page.keyboard.press("w")
        lab.output(1).locator(".nb-e-tag").wait_for()
        lab.save()
        lab.load()
        lab.output(1).locator(".nb-e-tag", has_text="wrong label").wait_for()
        select_confusion_of_c_as_a(lab)


def test_page_after_kernel_restart_shows_code_until_rerun(open_errors: OpenNotebook) -> None:
    with open_errors() as lab:
        gallery_range(lab).get_by_text("1–24 of").wait_for()
        lab.restart_kernel()
        click_matrix_cell(lab, 2, 0)
        lab.output(1).get_by_text("Python is no longer available").wait_for()
        assert lab.output(1).locator("code", has_text="result.rows(cells=[(2, 0)])").is_visible()
        lab.run_cells(0, 1)
        gallery_range(lab).get_by_text("1–24 of").wait_for()


@pytest.mark.parametrize(("theme", "width"), [("light", 700), ("dark", 1500)])
def test_saved_page_without_kernel_shows_first_samples(open_errors: OpenNotebook, theme: str, width: int) -> None:
    with open_errors(theme=theme, size=(width, 1200)) as lab:
        assert lab.display_formats(1) == STATIC_FORMATS
        lab.reopen_without_kernel()
        gallery_cards(lab).first.wait_for()
        assert gallery_cards(lab).count() == 24
        assert "first 24 of" in gallery_range(lab).inner_text()
        click_matrix_cell(lab, 2, 0)
        assert lab.output(1).locator("code", has_text="result.rows(cells=[(2, 0)])").is_visible()
        assert "Error displaying widget" not in lab.page.content()


TWO_MODELS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), 20)
before = nbdebug.errors(torch.nn.Linear(4, 3), loader, loss_fn=torch.nn.CrossEntropyLoss())
after = nbdebug.errors(torch.nn.Linear(4, 3), loader, loss_fn=torch.nn.CrossEntropyLoss())
"""


@pytest.mark.parametrize(
    ("last_line", "heading"), [("after.compare(before)", "Comparison of two models"), ("", "Model errors")]
)
def test_cell_with_several_results_shows_page_of_last_and_text_of_others(
    open_notebook: OpenNotebook, last_line: str, heading: str
) -> None:
    with open_notebook(SETUP, TWO_MODELS + last_line) as lab:
        lab.run_cells(0, 1)
        browser = lab.output(1).locator(".nb-e-both")
        browser.wait_for()
        assert browser.count() == 1
        assert lab.output(1).get_by_role("heading", name=heading, exact=True).count() == 1
        texts = [output["data"]["text/plain"] for output in lab.outputs(1) if set(output["data"]) == {"text/plain"}]
        assert len(texts) == (2 if last_line else 1)
        assert all(text.startswith("nbdebug errors: ") and "% of 60 samples correct" in text for text in texts)


TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import nbdebug

torch.manual_seed(0)
x = torch.randn(400, 8)
y = x[:, :4].argmax(1)
wrong = y.clone()
wrong[:60] = (y[:60] + 1) % 4
loaders = DataLoader(TensorDataset(x, wrong), 32, shuffle=True), DataLoader(TensorDataset(x, y), 200)
model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
dbg = nbdebug.Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
"""
SHOW_TAGGED = "result = dbg.errors('train')\nresult.tag(range(60), 'wrong label')\nresult"
PRINT_EFFECT = "effect = dbg.results['label_effect']\nprint(effect.verdict, effect.difference.pairs, effect.difference)"


def choose_tag(lab: LabPage) -> None:
    """Choose the tag as the filter of the gallery."""
    gallery_cards(lab).first.wait_for()
    lab.output(1).get_by_label("filter by a tag").select_option("wrong label")


@pytest.mark.parametrize(("theme", "width"), [("light", 1300), ("dark", 700)])
def test_click_retrains_without_the_tagged_samples_and_shows_progress(
    open_notebook: OpenNotebook, theme: str, width: int
) -> None:
    cells = TRAINING.replace("WIDTH", "32"), SHOW_TAGGED, PRINT_EFFECT
    with open_notebook(*cells, theme=theme, size=(width, 1200)) as lab:
        lab.run_cells(0, 1)
        choose_tag(lab)
        output = lab.output(1)
        output.get_by_role("button", name="Retrain without these samples").click()
        output.locator(".nb-trial").get_by_text("of 3,000 steps left").wait_for(timeout=60_000)
        output.locator(".nb-trial .nb-banner").wait_for(timeout=120_000)
        text = output.locator(".nb-trial .nb-banner").inner_text()
        assert output.locator(".nb-trial").evaluate("node => node.scrollWidth <= node.clientWidth + 1")
        lab.run_cells(2)
        verdict, pairs, difference = lab.output(2).inner_text().strip().split(" ", 2)
        assert (verdict, pairs) == ("helps", "5")
        assert difference in text


def test_stop_on_the_page_ends_the_retraining_between_seeds(open_notebook: OpenNotebook) -> None:
    with open_notebook(TRAINING.replace("WIDTH", "1500"), SHOW_TAGGED, PRINT_EFFECT) as lab:
        lab.run_cells(0, 1)
        choose_tag(lab)
        output = lab.output(1)
        output.get_by_role("button", name="Retrain with the predicted classes").click()
        output.locator(".nb-trial").get_by_text("of 3,000 steps left").wait_for(timeout=60_000)
        output.locator(".nb-trial").get_by_role("button", name="Stop").click()
        output.locator(".nb-trial").get_by_text("Stopped before two seeds were complete.").wait_for(timeout=20_000)
        lab.run_cells(2)
        assert lab.output(2).inner_text().startswith("stopped ")
        gallery_cards(lab).first.click()
        output.locator(".nb-e-detail").wait_for()
