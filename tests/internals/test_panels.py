"""Tests of the panels of features, attention and layer path."""

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
from tests.attribution.networks import TokenTransformer
from tests.browser import answer_requests
from tests.internals.internals_page import PANELS, InternalsPage
from tests.views.conftest import OpenPage
from tests.views.conftest import open_page as open_page

LETTERS = ["<pad>", *"abcdefghijklmnopqrs"]


class ConvolutionalNetwork(nn.Module):
    """A network for images of 40 × 40."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.head = nn.Conv2d(1, 5, 3), nn.ReLU(inplace=True), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.relu(self.conv(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def image_explanation() -> Explanation:
    torch.manual_seed(0)
    data = [(torch.rand(1, 40, 40) + number % 2, number % 2) for number in range(24)]
    model = ConvolutionalNetwork()
    with torch.no_grad():
        model.conv.weight[0], model.conv.bias[0] = 0, -1
    setup = Setup(
        model, torch.utils.data.DataLoader(data, 8), loss_fn=nn.CrossEntropyLoss(), class_names=["low", "high"]
    )
    return explain(setup, [3, 4], method="saliency", loader="train")


@pytest.fixture(scope="module")
def token_explanation() -> Explanation:
    torch.manual_seed(0)
    data = [(torch.randint(1, 20, (6,)), number % 3) for number in range(24)]
    data[0][0][4:] = 0
    setup = Setup(TokenTransformer(), torch.utils.data.DataLoader(data, 8), loss_fn=nn.CrossEntropyLoss())
    return explain(setup, 0, method="saliency", loader="train", decode=LETTERS)


def test_features_panel_maps_are_pooled_layer_outputs(image_explanation: Explanation) -> None:
    state = PANELS["features"].state(image_explanation, 0, at=0, order="first")
    assert (state["kind"], state["rows"], state["columns"], state["pooled"]) == ("maps", 32, 32, "38×38")
    model = image_explanation.model.eval()
    activations = model.conv(image_explanation.batch_of_one(0).args[0])
    expected = nn.functional.adaptive_avg_pool2d(activations, 32)[0].detach().numpy()
    pixels = np.frombuffer(b64decode(state["data"]), np.uint8).reshape(5, 32, 32)
    for (channel, _, low, high), values in zip(state["cells"], pixels, strict=True):
        assert low + values / 255 * (high - low) == pytest.approx(expected[channel], abs=(high - low) / 200 + 1e-3)
    assert [layer["title"] for layer in state["layers"]] == ["conv", "relu", "head"]


def test_features_panel_marks_dead_channels_and_compares_units_with_class(image_explanation: Explanation) -> None:
    state = PANELS["features"].state(image_explanation, 0, at=1)
    assert [0, "dead", 0, 0] in state["cells"]
    units = PANELS["features"].state(image_explanation, 0, at=2)
    assert [unit[1] for unit in units["units"]] == ["low", "high"]
    assert (units["beside"], units["class"]) == (24, units["units"][int(image_explanation.outputs[0].argmax())][1])
    assert units["members"] == 12


def test_attention_panel_axes_are_tokens_and_selected_head_is_enlarged(token_explanation: Explanation) -> None:
    assert PANELS["attention"].fits(token_explanation)
    state = PANELS["attention"].state(token_explanation, 0)
    words = [LETTERS[token] for token in token_explanation.batch_of_one(0).args[0][0, :4].tolist()]
    assert state["axes"]["6"] == [*words, "(padding)", "(padding)"]
    assert (len(state["maps"]), len(state["maps"][0]), state["side"]) == (1, 2, 6)
    large = PANELS["attention"].state(token_explanation, 0, layer=0, head=1)["large"]
    assert large == state["maps"][0][1]


def test_panels_do_not_fit_model_without_attention_or_layers(image_explanation: Explanation) -> None:
    assert not PANELS["attention"].fits(image_explanation)
    of_function = explain(lambda x: x[:, :2], torch.randn(2, 3), background=torch.randn(8, 3), method="occlusion")
    assert not any(panel.fits(of_function) for panel in PANELS.values())


def test_panel_state_is_small_json_and_html_has_table(
    image_explanation: Explanation, token_explanation: Explanation
) -> None:
    for explanation in (image_explanation, token_explanation):
        for panel in PANELS.values():
            if panel.fits(explanation):
                state = panel.state(explanation, 0)
                assert len(json.dumps(state, allow_nan=False)) < 300_000
                assert "<table>" in panel.html(state)


def open_panel(open_page: OpenPage, explanation: Explanation, name: str, **options: Any) -> Any:
    page = open_page(InternalsPage(name=name, first=PANELS[name].state(explanation, 0)), **options)
    answer_requests(page, lambda name, request: PANELS[name].state(explanation, 0, **request))
    return page


def test_features_panel_scale_layer_and_keyboard_change_page(
    open_page: OpenPage, image_explanation: Explanation
) -> None:
    page = open_panel(open_page, image_explanation, "features")
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


def test_attention_and_path_panels_fit_narrow_page_and_respond_to_keyboard(
    open_page: OpenPage, token_explanation: Explanation
) -> None:
    page = open_panel(open_page, token_explanation, "attention", width=320)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.get_by_role("button", name="head 2").click()
    assert "head 2" in page.locator(".nb-i-large").inner_text()
    page.locator(".nb-i-frame").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".nb-i-reading").inner_text().startswith("from “")
    page = open_panel(open_page, token_explanation, "path", width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.locator(".nb-i-chart").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".nb-i-reading").first.inner_text().startswith("embed (Embedding)")
