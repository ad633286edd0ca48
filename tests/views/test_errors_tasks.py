"""Tests of the error browser for multilabel, segmentation, language-model and audio tasks."""

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

from .error_browser_pages import click_cell, gallery_rows, open_error_page, wait_for_total


def make_task_errors(model: nn.Module, data: Any, loss: Any, **options: Any) -> Errors:
    """Errors of a model on a data set."""
    loader = DataLoader(data, batch_size=16)
    decode = {"decode": options.pop("decode")} if "decode" in options else {}
    return nbdebug.Debugger(model, loader, loader, loss_fn=loss, **options).errors(**decode)


def test_multilabel_errors_cell_click_shows_its_samples(page: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(120, 3)
    data = TensorDataset(x, (x + torch.randn(120, 3) > 0).float())
    model = nn.Linear(3, 3)
    with torch.no_grad():
        model.weight.copy_(2 * torch.eye(3))
    errors = make_task_errors(model, data, nn.BCEWithLogitsLoss(), class_names=["cat", "dog", "hen"])
    open_error_page(page, errors, tmp_path)
    click_cell(page, 1, 1, errors.table.grid.counts.shape)
    count = int(errors.table.grid.counts[1, 1])
    wait_for_total(page, count)
    for row in gallery_rows(page):
        assert data.tensors[1][row, 1] == 1
        assert model(x[row])[1] <= 0
    page.get_by_role("button", name="Classes", exact=True).click()
    page.get_by_role("region", name="classes").get_by_text("hen").first.wait_for()


def test_segmentation_errors_show_wrong_pixels_as_overlay(page: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    images = torch.rand(20, 1, 16, 16)
    masks = (images[:, 0] > 0.5).long()
    masks[:5, :8] = 1
    model = nn.Conv2d(1, 2, 1)
    with torch.no_grad():
        model.weight[:, 0, 0, 0] = torch.tensor([0.0, 20.0])
        model.bias[:] = torch.tensor([10.0, 0.0])
    errors = make_task_errors(model, TensorDataset(images, masks), nn.CrossEntropyLoss(), class_names=["ground", "sky"])
    open_error_page(page, errors, tmp_path)
    assert page.locator(".nb-e-overlay").first.get_attribute("src").startswith("data:image/")
    click_cell(page, 1, 0, errors.table.grid.counts.shape)
    wait_for_total(page, 5)
    assert sorted(gallery_rows(page)) == [0, 1, 2, 3, 4]
    page.locator(".nb-e-card").first.dblclick()
    page.locator(".nb-e-detail .nb-e-overlay").wait_for()


class NextLetters(Dataset[Any]):
    """Rows of letters with the next letters as targets."""

    def __init__(self) -> None:
        self.ids = torch.randint(0, 4, (12, 9), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.ids[index, :-1], self.ids[index, 1:]


def test_language_model_errors_shade_tokens_by_loss(page: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Embedding(4, 4)

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

    errors = make_task_errors(model, NextLetters(), loss, task="language-model", decode=["a", "b", "c", "<i>d</i>"])
    open_error_page(page, errors, tmp_path)
    tokens = page.locator(".nb-e-card").first.locator(".nb-e-token")
    row = gallery_rows(page)[0]
    assert tokens.count() == 8
    token_losses = [loss for _, loss in errors.table.tokens(row)]
    shades = tokens.evaluate_all("nodes => nodes.map((node) => Number(node.style.cssText.match(/(\\d+)%/)[1]))")
    assert int(np.argmax(shades)) == int(np.argmax(token_losses))
    assert page.locator(".nb-e-card i i").count() == 0


def test_audio_errors_have_a_player(page: Any, tmp_path: Path) -> None:
    time = torch.arange(8000) / 8000
    waves = [torch.sin(2 * np.pi * (300 + 50 * i) * time) for i in range(4)]
    samples = [(wave, 8000) for wave in waves]
    errors = nbdebug.errors(predictions=[0, 1, 1, 0], targets=[0, 1, 0, 1], inputs=samples)
    open_error_page(page, errors, tmp_path)
    player = page.locator(".nb-e-card audio").first
    length = player.evaluate(
        """node => new Promise((done) => {
          node.onloadedmetadata = () => done(node.duration);
          node.preload = "auto";
          node.load();
        })"""
    )
    assert length == pytest.approx(1, abs=0.1)


DELAY_SAMPLE_REQUESTS = """() => {
  const answer = python;
  window.python = async (text) => {
    if (JSON.parse(text).kind === "sample") await new Promise((done) => { window.release = done; });
    return answer(text);
  };
}"""


def test_sample_detail_keeps_note_and_explanation_when_full_sample_arrives(page: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 3), torch.randint(3, (40,)))
    errors = make_task_errors(nn.Linear(3, 3), data, nn.CrossEntropyLoss())
    open_error_page(page, errors, tmp_path)
    page.evaluate(DELAY_SAMPLE_REQUESTS)
    page.locator(".nb-e-card").first.click()
    detail = page.locator(".nb-e-detail")
    detail.get_by_label("note").fill("half a th")
    detail.get_by_role("button", name="Explain this prediction").click()
    detail.locator(".nb-x-page").wait_for(timeout=60_000)  # the first explanation imports its modules
    assert detail.locator(".nb-e-top-k").count() == 0
    page.evaluate("release()")
    detail.locator(".nb-e-top-k").wait_for()
    assert detail.get_by_label("note").input_value() == "half a th"
    assert detail.locator(".nb-x-page").is_visible()
