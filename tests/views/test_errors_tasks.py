"""The error browser of tasks with more to them than one class: labels, masks, tokens, sounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.tools.errors import Errors

from .errors import opened
from .test_errors_page import rows, total


def browser(model: nn.Module, data: Any, loss: Any, **options: Any) -> Errors:
    """What a model gets wrong on a data set."""
    loader = DataLoader(data, batch_size=16)
    decode = {"decode": options.pop("decode")} if "decode" in options else {}
    return nbdebug.Debugger(model, loader, loader, loss_fn=loss, **options).errors(**decode)


def click(page: Any, result: Errors, row: int, column: int) -> None:
    """A click in a cell of the overview."""
    grid = result.table.grid
    box = page.locator(".nb-e-stage canvas").bounding_box()
    look = page.locator(".nb-e-stage").evaluate("node => JSON.parse(node.dataset.look)")
    x = box["x"] + look["left"] + (column + 0.5) * look["wide"] / len(grid.columns)
    y = box["y"] + look["top"] + (row + 0.5) * look["high"] / len(grid.rows)
    page.mouse.move(x, y)
    page.mouse.click(x, y)


def test_a_way_to_be_wrong_with_a_label_leads_to_its_samples(page: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(120, 3)
    data = TensorDataset(x, (x + torch.randn(120, 3) > 0).float())
    model = nn.Linear(3, 3)
    with torch.no_grad():
        model.weight.copy_(2 * torch.eye(3))
    result = browser(model, data, nn.BCEWithLogitsLoss(), class_names=["cat", "dog", "hen"])
    opened(page, result, tmp_path)
    click(page, result, 1, 1)
    count = int(result.table.grid.counts[1, 1])
    total(page, count)
    for row in rows(page):
        assert data.tensors[1][row, 1] == 1
        assert model(x[row])[1] <= 0
    page.get_by_role("button", name="Classes", exact=True).click()
    page.get_by_role("region", name="classes").get_by_text("hen").first.wait_for()


def test_pixels_that_are_wrong_lie_over_their_image(page: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    images = torch.rand(20, 1, 16, 16)
    masks = (images[:, 0] > 0.5).long()
    masks[:5, :8] = 1
    model = nn.Conv2d(1, 2, 1)
    with torch.no_grad():
        model.weight[:, 0, 0, 0] = torch.tensor([0.0, 20.0])
        model.bias[:] = torch.tensor([10.0, 0.0])
    result = browser(model, TensorDataset(images, masks), nn.CrossEntropyLoss(), class_names=["ground", "sky"])
    opened(page, result, tmp_path)
    assert page.locator(".nb-e-overlay").first.get_attribute("src").startswith("data:image/")
    click(page, result, 1, 0)
    total(page, 5)
    assert sorted(rows(page)) == [0, 1, 2, 3, 4]
    page.locator(".nb-e-card").first.dblclick()
    page.locator(".nb-e-detail .nb-e-overlay").wait_for()


class Letters(Dataset[Any]):
    """Rows of letters, of which the next is to be told."""

    def __init__(self) -> None:
        self.ids = torch.randint(0, 4, (12, 9), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.ids[index, :-1], self.ids[index, 1:]


def test_what_each_token_lost_is_shaded(page: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Embedding(4, 4)

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

    result = browser(model, Letters(), loss, task="language-model", decode=["a", "b", "c", "<i>d</i>"])
    opened(page, result, tmp_path)
    tokens = page.locator(".nb-e-card").first.locator(".nb-e-token")
    (row, *_) = rows(page)
    assert tokens.count() == 8
    lost = [loss for _, loss in result.table.tokens(row)]
    shades = tokens.evaluate_all("all => all.map((one) => Number(one.style.cssText.match(/(\\d+)%/)[1]))")
    assert int(np.argmax(shades)) == int(np.argmax(lost))
    assert page.locator(".nb-e-card i i").count() == 0


def test_a_sound_can_be_played(page: Any, tmp_path: Path) -> None:
    time = torch.arange(8000) / 8000
    waves = [torch.sin(2 * np.pi * (300 + 50 * i) * time) for i in range(4)]
    samples = [(wave, 8000) for wave in waves]
    result = nbdebug.errors(predictions=[0, 1, 1, 0], targets=[0, 1, 0, 1], inputs=samples)
    opened(page, result, tmp_path)
    player = page.locator(".nb-e-card audio").first
    length = player.evaluate(
        """node => new Promise((done) => {
          node.onloadedmetadata = () => done(node.duration);
          node.preload = "auto";
          node.load();
        })"""
    )
    assert length == pytest.approx(1, abs=0.1)


LATE = """() => {
  const ask = python;
  window.python = async (text) => {
    if (JSON.parse(text).kind === "sample") await new Promise((done) => { window.release = done; });
    return ask(text);
  };
}"""


def test_what_was_begun_before_the_sample_came_in_full_stays(page: Any, tmp_path: Path) -> None:
    """A note that was typed meanwhile is kept, and so is a reason that was asked for."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 3), torch.randint(3, (40,)))
    result = browser(nn.Linear(3, 3), data, nn.CrossEntropyLoss())
    opened(page, result, tmp_path)
    page.evaluate(LATE)
    page.locator(".nb-e-card").first.click()
    detail = page.locator(".nb-e-detail")
    detail.get_by_label("note").fill("half a th")
    detail.get_by_role("button", name="Explain this prediction").click()
    detail.locator(".nb-x-page").wait_for(timeout=60_000)  # it imports much
    assert detail.locator(".nb-e-top-k").count() == 0
    page.evaluate("release()")
    detail.locator(".nb-e-top-k").wait_for()
    assert detail.get_by_label("note").input_value() == "half a th"
    assert detail.locator(".nb-x-page").is_visible()
