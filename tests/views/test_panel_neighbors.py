"""Tests of the neighbors panel and of neighbors in a sample detail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.tools.errors import Errors

from .error_browser_pages import gallery_rows, open_error_page


def corner_images(rows: int, seed: int) -> TensorDataset:
    """Images of three classes, each with its own bright corner; every tenth label is wrong."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, rows)
    images = random.random((rows, 1, 8, 8)).astype(np.float32) * 0.5
    for at, (top, left) in enumerate(((0, 0), (0, 4), (4, 0))):
        images[labels == at, :, top : top + 4, left : left + 4] += 0.5
    labels[::10] = (labels[::10] + 1) % 3
    return TensorDataset(torch.tensor(images), torch.tensor(labels))


@pytest.fixture
def errors() -> Errors:
    """Errors of a network trained on the corners."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
    train, optimizer = corner_images(300, 0), torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(train.tensors[0]), train.tensors[1]).backward()
        optimizer.step()
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(corner_images(200, 1), 50)
    return Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss()).errors()


@pytest.fixture
def neighbors_page(page: Any, errors: Errors, tmp_path: Path) -> Any:
    """The page with the neighbors panel open."""
    open_error_page(page, errors, tmp_path)
    page.get_by_role("button", name="Neighbors", exact=True).click()
    page.get_by_role("button", name="Compute neighbors").click()
    page.get_by_text("Neighbors with another label", exact=True).wait_for()
    return page


def test_neighbors_panel_band_click_shows_its_samples(neighbors_page: Any, errors: Errors) -> None:
    disagreement = errors.table.columns["neighbors_disagree"]
    neighbors_page.get_by_role("button", name="8 of 8").click()
    count = int((disagreement == 1).sum())
    assert count > 5
    neighbors_page.get_by_text(f"of {count}", exact=False).first.wait_for()
    keys = gallery_rows(neighbors_page)
    rows = errors.rows_of(keys)
    assert (disagreement[rows] == 1).all()
    assert keys[0] == int(errors.neighbors().index[0])


def test_sample_detail_shows_nearest_training_samples(neighbors_page: Any, errors: Errors) -> None:
    neighbors_page.get_by_role("button", name="8 of 8").click()
    first = int(errors.neighbors().index[0])
    neighbors_page.get_by_role("option", name=re.compile(rf"^sample {first}\b")).dblclick()
    neighbors_page.get_by_role("button", name="Nearest training samples").click()
    cards = neighbors_page.locator(".nb-neighbor")
    cards.first.wait_for()
    assert cards.count() == 8
    assert cards.locator("img").count() == 8
    titles = cards.evaluate_all("nodes => nodes.map((node) => node.title)")
    assert [int(title.split()[2].strip(",")) for title in titles] == errors.neighbors(first).index.tolist()
    assert cards.locator("b.nb-wrong").count() == 8
    neighbors_page.get_by_role(
        "button", name="next sample"
    ).click()  # later samples load their neighbors without a click
    neighbors_page.wait_for_function("requests.filter((request) => request.options?.row !== undefined).length === 2")
    cards.first.wait_for()


def test_sample_detail_without_kernel_shows_python_line(page: Any, errors: Errors, tmp_path: Path) -> None:
    open_error_page(page, errors, tmp_path, kernel=False)
    page.locator(".nb-e-card").first.dblclick()
    page.get_by_role("button", name="Nearest training samples").click()
    page.get_by_text("errors.neighbors(").wait_for()


@pytest.mark.parametrize("width", [320, 900])
def test_neighbors_panel_fits_page_width(neighbors_page: Any, width: int) -> None:
    neighbors_page.set_viewport_size({"width": width, "height": 900})
    assert neighbors_page.evaluate("document.documentElement.scrollWidth") <= width
