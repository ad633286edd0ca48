"""The panel of neighbors and the section of the open sample, in Chromium, answered by the real result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.tools.errors import Errors

from .errors import opened


def blobs(rows: int, seed: int) -> TensorDataset:
    """Three classes of pictures, each with a bright corner of its own; every tenth label is wrong."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, rows)
    pictures = random.random((rows, 1, 8, 8)).astype(np.float32) * 0.5
    for at, (top, left) in enumerate(((0, 0), (0, 4), (4, 0))):
        pictures[labels == at, :, top : top + 4, left : left + 4] += 0.5
    labels[::10] = (labels[::10] + 1) % 3
    return TensorDataset(torch.tensor(pictures), torch.tensor(labels))


@pytest.fixture
def result() -> Errors:
    """The errors of a network that has seen the corners."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
    train, optimizer = blobs(300, 0), torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(train.tensors[0]), train.tensors[1]).backward()
        optimizer.step()
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(blobs(200, 1), 50)
    return Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss()).errors()


@pytest.fixture
def browser_page(page: Any, result: Errors, tmp_path: Path) -> Any:
    """Its page with the panel open."""
    opened(page, result, tmp_path)
    page.get_by_role("button", name="Neighbors", exact=True).click()
    page.get_by_role("button", name="Compute neighbors").click()
    page.get_by_text("Neighbors with another label", exact=True).wait_for()
    return page


def test_a_band_leads_to_its_samples(browser_page: Any, result: Errors) -> None:
    disagree = result.table.columns["neighbors_disagree"]
    browser_page.get_by_role("button", name="8 of 8").click()
    count = int((disagree == 1).sum())
    assert count > 5
    browser_page.get_by_text(f"of {count}", exact=False).first.wait_for()
    labels = browser_page.locator(".nb-e-card").evaluate_all("all => all.map((one) => one.ariaLabel)")
    keys = [int(one.split(",")[0].removeprefix("sample ")) for one in labels]
    rows = result.rows_of(keys)
    assert (disagree[rows] == 1).all()
    assert keys[0] == int(result.neighbors().index[0])


def test_the_open_sample_shows_its_nearest_training_samples(browser_page: Any, result: Errors) -> None:
    browser_page.get_by_role("button", name="8 of 8").click()
    first = int(result.neighbors().index[0])
    browser_page.locator(f'.nb-e-card[aria-label^="sample {first},"]').dblclick()
    browser_page.get_by_role("button", name="Nearest training samples").click()
    cards = browser_page.locator(".nb-neighbor")
    cards.first.wait_for()
    assert cards.count() == 8
    assert cards.locator("img").count() == 8
    told = cards.evaluate_all("all => all.map((one) => one.title)")
    assert [int(one.split()[2].strip(",")) for one in told] == result.neighbors(first).index.tolist()
    assert cards.locator("b.nb-wrong").count() == 8
    browser_page.get_by_role("button", name="next sample").click()  # once asked for, they come by themselves
    browser_page.wait_for_function("asked.filter((one) => one.options?.row !== undefined).length === 2")
    cards.first.wait_for()


def test_without_a_kernel_it_says_the_line_to_write(page: Any, result: Errors, tmp_path: Path) -> None:
    opened(page, result, tmp_path, kernel=False)
    page.locator(".nb-e-card").first.dblclick()
    page.get_by_role("button", name="Nearest training samples").click()
    page.get_by_text("errors.neighbors(").wait_for()


@pytest.mark.parametrize("width", [320, 900])
def test_it_fits_narrow_and_wide_pages(browser_page: Any, width: int) -> None:
    browser_page.set_viewport_size({"width": width, "height": 900})
    assert browser_page.evaluate("document.documentElement.scrollWidth") <= width
