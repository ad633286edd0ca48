"""The panels that look inside show what was computed, and lead on by clicks and keys."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.setup import Setup
from nbdebug.tools.explain.result import Explanation
from nbdebug.tools.explain.tool import explain
from tests.attribution.networks import Sequence
from tests.internals.insides import PANELS, InsidePage
from tests.views.conftest import OpenPage as Open
from tests.views.conftest import open_page as open_page

LETTERS = ["<pad>", *"abcdefghijklmnopqrs"]


class Pictures(nn.Module):
    """A network for pictures of 40 × 40."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.head = nn.Conv2d(1, 5, 3), nn.ReLU(inplace=True), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.relu(self.conv(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def pictures() -> Explanation:
    torch.manual_seed(0)
    data = [(torch.rand(1, 40, 40) + number % 2, number % 2) for number in range(24)]
    model = Pictures()
    with torch.no_grad():
        model.conv.weight[0], model.conv.bias[0] = 0, -1
    setup = Setup(
        model, torch.utils.data.DataLoader(data, 8), loss_fn=nn.CrossEntropyLoss(), class_names=["low", "high"]
    )
    return explain(setup, [3, 4], method="saliency", loader="train")


@pytest.fixture(scope="module")
def letters() -> Explanation:
    torch.manual_seed(0)
    data = [(torch.randint(1, 20, (6,)), number % 3) for number in range(24)]
    data[0][0][4:] = 0
    setup = Setup(Sequence(), torch.utils.data.DataLoader(data, 8), loss_fn=nn.CrossEntropyLoss())
    return explain(setup, 0, method="saliency", loader="train", decode=LETTERS)


def test_maps_are_what_the_layer_gives_pooled(pictures: Explanation) -> None:
    state = PANELS["features"].state(pictures, 0, at=0, order="first")
    assert (state["kind"], state["rows"], state["columns"], state["pooled"]) == ("maps", 32, 32, "38×38")
    model = pictures.model.eval()
    given = model.conv(pictures.batch_of_one(0).args[0])
    expected = nn.functional.adaptive_avg_pool2d(given, 32)[0].detach().numpy()
    steps = np.frombuffer(b64decode(state["data"]), np.uint8).reshape(5, 32, 32)
    for (channel, _, low, high), one in zip(state["cells"], steps, strict=True):
        assert low + one / 255 * (high - low) == pytest.approx(expected[channel], abs=(high - low) / 200 + 1e-3)
    assert [one["title"] for one in state["layers"]] == ["conv", "relu", "head"]


def test_dead_channels_and_units_are_beside_others(pictures: Explanation) -> None:
    state = PANELS["features"].state(pictures, 0, at=1)
    assert [0, "dead", 0, 0] in state["cells"]
    units = PANELS["features"].state(pictures, 0, at=2)
    assert [one[1] for one in units["units"]] == ["low", "high"]
    assert (units["beside"], units["class"]) == (24, units["units"][int(pictures.outputs[0].argmax())][1])
    assert units["members"] == 12


def test_tokens_stand_at_the_places(letters: Explanation) -> None:
    assert PANELS["attention"].fits(letters)
    state = PANELS["attention"].state(letters, 0)
    words = [LETTERS[one] for one in letters.batch_of_one(0).args[0][0, :4].tolist()]
    assert state["axes"]["6"] == [*words, "(padding)", "(padding)"]
    assert (len(state["maps"]), len(state["maps"][0]), state["side"]) == (1, 2, 6)
    large = PANELS["attention"].state(letters, 0, layer=0, head=1)["large"]
    assert large == state["maps"][0][1]


def test_a_model_without_attention_or_layers_has_no_such_panel(pictures: Explanation) -> None:
    assert not PANELS["attention"].fits(pictures)
    black = explain(lambda x: x[:, :2], torch.randn(2, 3), background=torch.randn(8, 3), method="occlusion")
    assert not any(panel.fits(black) for panel in PANELS.values())


def test_what_python_shows_is_escaped_and_small(pictures: Explanation, letters: Explanation) -> None:
    for explanation in (pictures, letters):
        for panel in PANELS.values():
            if panel.fits(explanation):
                state = panel.state(explanation, 0)
                assert len(json.dumps(state, allow_nan=False)) < 300_000
                assert "<table>" in panel.html(state)


def opened(open_page: Open, explanation: Explanation, name: str, **given: Any) -> Any:
    page = open_page(InsidePage(name=name, first=PANELS[name].state(explanation, 0)), **given)
    page.expose_function("python", lambda name, options: PANELS[name].state(explanation, 0, **options))
    return page


def test_another_layer_is_asked_for_and_read(open_page: Open, pictures: Explanation) -> None:
    page = opened(open_page, pictures, "features")
    assert page.locator("canvas").count() == 5
    page.get_by_role("button", name="Own scales").click()
    assert "own scale" in page.locator(".nb-i-block").inner_text()
    page.locator("select").select_option("2")
    page.wait_for_selector(".nb-i-unit")
    assert page.locator(".nb-i-unit").count() == 2
    page.locator("select").select_option("0")
    page.wait_for_selector(".nb-i-maps")
    page.locator(".nb-i-maps").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".nb-i-reading").inner_text().startswith("channel ")


def test_heads_and_paths_are_read(open_page: Open, letters: Explanation) -> None:
    page = opened(open_page, letters, "attention", width=320)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.get_by_role("button", name="head 2").click()
    assert "head 2" in page.locator(".nb-i-large").inner_text()
    page.locator(".nb-i-frame").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".nb-i-reading").inner_text().startswith("from “")
    page = opened(open_page, letters, "path", width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.locator(".nb-i-chart").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".nb-i-reading").first.inner_text().startswith("embed (Embedding)")
