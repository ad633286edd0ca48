"""The pages of importance and of its drift in a browser."""

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

from .conftest import Open

EVIL = "<img src=x onerror=window.hit=1>"


class Pairs(nn.Module):
    """The first feature counts where the second is positive."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.weight * x[:, :1] * x[:, 1:2] + 0.5 * x[:, 2:3]
        return found


@cache
def made(weight: float = 1.0) -> Importance:
    """Of four features, one with a name that is no name."""
    x = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(x, Pairs(1.0)(x).detach()), batch_size=60)
    names = ["age", "class", EVIL, "fare"]
    return importance(Setup(Pairs(weight), loader, loader, loss_fn=nn.MSELoss(), feature_names=names), repeats=1)


def tab(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def first_names(page: Any) -> list[str]:
    return [str(one) for one in page.locator("tbody th").all_inner_texts()]


def test_bars_are_sorted_by_either_measure(open_page: Open) -> None:
    found = made()
    page = open_page(found.view())
    assert first_names(page) == [found.names[j] for j in found.order]
    page.get_by_role("button", name="fall of R² when permuted").click()
    by_drop = np.argsort(-found.drop, kind="stable")
    assert first_names(page)[0] == found.names[by_drop[0]]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("fall of R²")
    assert page.get_by_text(EVIL).first.is_visible()
    assert page.evaluate("window.hit") is None
    assert page.locator("tbody tr", has_text="*").count() == int(found.significant.sum())


def test_a_feature_leads_to_its_dependence_and_its_partner(open_page: Open) -> None:
    page = open_page(made().view())
    page.get_by_role("button", name="age", exact=True).click()
    assert page.get_by_label("feature").evaluate("one => one.selectedOptions[0].text") == "age"
    assert page.get_by_label("colored by").evaluate("one => one.selectedOptions[0].text") == "class"
    canvas = page.get_by_label("Dependence")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    said = page.locator("[aria-live=polite]").inner_text()
    assert "age = " in said
    assert "class = " in said
    page.get_by_label("feature").select_option("fare")
    assert page.get_by_text("No interaction with another feature").is_visible()


def test_a_dot_of_the_swarm_tells_its_sample(open_page: Open) -> None:
    found = made()
    assert found.attributions is not None
    page = open_page(found.view())
    tab(page, "Beeswarm")
    canvas = page.get_by_label("Beeswarm")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    first = int(found.order[0])
    least = int(found.attributions[:, first].argmin())
    said = page.locator("[aria-live=polite]").inner_text()
    assert f"attribution \N{MINUS SIGN}{abs(found.attributions[least, first]):.3g}" in said
    assert f"sample {found.keys[least]}:" in said
    page.keyboard.press("Enter")
    assert page.get_by_label("colored by").is_visible()


def test_maps_of_a_picture_come_first(open_page: Open) -> None:
    found = replace(made(), maps={"input": np.arange(12.0).reshape(3, 4)})
    page = open_page(found.view())
    image = page.get_by_role("img")
    assert "highest at row 2, column 3" in image.get_attribute("aria-label")
    box = image.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 3)
    assert page.get_by_text("row 0, column 3: 3").is_visible()


def test_drift_shows_each_measure(open_page: Open) -> None:
    two = made(2.0).compare(made(1.0), names=("epoch 1", "epoch 9"))
    page = open_page(two.view())
    assert page.locator("tbody svg").first.get_attribute("aria-label").startswith("epoch 1 ")
    told = page.locator("tbody tr", has_text="*").count()
    assert told == int(two.measure.significant.sum())
    tab(page, "Mean |SHAP|")
    assert page.locator("tbody tr", has_text="*").count() == int(two.measures["size"].significant.sum())
    lines = open_page(drift([made(1.0), made(2.0), made(1.0)]).view())
    assert lines.locator("polyline").count() == 4


def test_pages_are_small_and_fit_a_narrow_one(open_page: Open) -> None:
    views = made().view(), made(2.0).compare(made()).view()
    assert len(json.dumps(views[0].state())) < 30_000
    assert len(static_html(views[0])) < 60_000
    for name in ("Bars", "Beeswarm", "Dependence"):
        page = open_page(*views, width=320, dark=True)
        tab(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    plain = open_page(*views, scripts=False)
    assert plain.get_by_text(EVIL).count() >= 2
