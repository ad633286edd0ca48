"""Tests of the pages of importance and of its drift."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.importance import drift, importance
from nbdebug.tools.importance.result import Importance
from nbdebug.views.page import static_html

from .conftest import OpenPage
from .hostile_text import HOSTILE_NAME


class InteractionModel(nn.Module):
    """The product of the first two features plus half the third."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.weight * x[:, :1] * x[:, 1:2] + 0.5 * x[:, 2:3]
        return output


@cache
def make_importance(weight: float = 1.0) -> Importance:
    """Importance of four features, one with a hostile name."""
    x = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(x, InteractionModel(1.0)(x).detach()), batch_size=60)
    names = ["age", "class", HOSTILE_NAME, "fare"]
    return importance(
        Setup(InteractionModel(weight), loader, loader, loss_fn=nn.MSELoss(), feature_names=names), repeats=1
    )


def open_tab(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def row_names(page: Any) -> list[str]:
    return [str(text) for text in page.locator("tbody th").all_inner_texts()]


def test_importance_bars_sort_by_attribution_or_permutation(open_page: OpenPage) -> None:
    result = make_importance()
    page = open_page(result.view())
    assert row_names(page) == [result.names[j] for j in result.order]
    page.get_by_role("button", name="fall of R² when permuted").click()
    drop_order = np.argsort(-result.drop, kind="stable")
    assert row_names(page)[0] == result.names[drop_order[0]]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("fall of R²")
    assert page.get_by_text(HOSTILE_NAME).first.is_visible()
    assert page.evaluate("window.hit") is None
    assert page.locator("tbody tr", has_text="*").count() == int(result.significant.sum())


def test_feature_click_shows_dependence_colored_by_its_partner(open_page: OpenPage) -> None:
    page = open_page(make_importance().view())
    page.get_by_role("button", name="age", exact=True).click()
    assert page.get_by_label("feature").evaluate("node => node.selectedOptions[0].text") == "age"
    assert page.get_by_label("colored by").evaluate("node => node.selectedOptions[0].text") == "class"
    canvas = page.get_by_label("Dependence")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    reading = page.locator("[aria-live=polite]").inner_text()
    assert "age = " in reading
    assert "class = " in reading
    page.get_by_label("feature").select_option("fare")
    assert page.get_by_text("No interaction with another feature").is_visible()


def test_beeswarm_keys_read_samples_and_enter_shows_dependence(open_page: OpenPage) -> None:
    result = make_importance()
    assert result.attributions is not None
    page = open_page(result.view())
    open_tab(page, "Beeswarm")
    canvas = page.get_by_label("Beeswarm")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    first = int(result.order[0])
    lowest = int(result.attributions[:, first].argmin())
    reading = page.locator("[aria-live=polite]").inner_text()
    assert f"attribution \N{MINUS SIGN}{abs(result.attributions[lowest, first]):.3g}" in reading
    assert f"sample {result.keys[lowest]}:" in reading
    page.keyboard.press("Enter")
    assert page.get_by_label("colored by").is_visible()


def test_importance_maps_of_images_come_first(open_page: OpenPage) -> None:
    result = replace(make_importance(), maps={"input": np.arange(12.0).reshape(3, 4)})
    page = open_page(result.view())
    image = page.get_by_role("img")
    assert "highest at row 2, column 3" in image.get_attribute("aria-label")
    box = image.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 3)
    assert page.get_by_text("row 0, column 3: 3").is_visible()


def test_drift_view_shows_each_measure(open_page: OpenPage) -> None:
    comparison = make_importance(2.0).compare(make_importance(1.0), names=("epoch 1", "epoch 9"))
    page = open_page(comparison.view())
    assert page.locator("tbody svg").first.get_attribute("aria-label").startswith("epoch 1 ")
    significant_rows = page.locator("tbody tr", has_text="*").count()
    assert significant_rows == int(comparison.measure.significant.sum())
    open_tab(page, "Mean |SHAP|")
    assert page.locator("tbody tr", has_text="*").count() == int(comparison.measures["size"].significant.sum())
    lines = open_page(drift([make_importance(1.0), make_importance(2.0), make_importance(1.0)]).view())
    assert lines.locator("polyline").count() == 4


def test_importance_and_drift_pages_are_small_and_fit_narrow_width(open_page: OpenPage) -> None:
    views = make_importance().view(), make_importance(2.0).compare(make_importance()).view()
    assert len(json.dumps(views[0].state())) < 30_000
    assert len(static_html(views[0])) < 60_000
    for name in ("Bars", "Beeswarm", "Dependence"):
        page = open_page(*views, width=320, dark=True)
        open_tab(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    plain_page = open_page(*views, scripts=False)
    assert plain_page.get_by_text(HOSTILE_NAME).count() >= 2
