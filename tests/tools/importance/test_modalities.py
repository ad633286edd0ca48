"""Tests of the importance of images, tokens, time series, categories and several inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.tools.importance import importance
from nbdebug.tools.importance.result import Importance
from tests.attribution.networks import MixedInputModel
from tests.tools.importance.setups import make_setup


def new_generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


class CornerClassifier(nn.Module):
    """A classifier by the upper left corner of the first channel."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, x: Tensor) -> Tensor:
        brightness = self.scale * x[:, 0, :2, :2].mean((1, 2))
        return torch.stack([-brightness, brightness], 1)


class TokenClassifier(nn.Module):
    """A sum of embeddings in which only token 7 favors the second class."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 1)
        with torch.no_grad():
            self.embed.weight[:] = -0.5
            self.embed.weight[7] = 5.0

    def forward(self, tokens: Tensor) -> Tensor:
        score = self.embed(tokens).sum(1)
        return torch.cat([-score, score], 1)


class LastStepClassifier(nn.Module):
    """A classifier by the first channel at the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([-self.scale * x[:, -1, 0], self.scale * x[:, -1, 0]], 1)


def most_important_feature(result: Importance, kind: str) -> str:
    """Name of the feature of a kind that is first by size and by drop."""
    indices = [j for j, feature in enumerate(result.features) if feature.kind == kind]
    best = [indices[int(np.nanargmax(values[indices]))] for values in (result.size.value, result.drop)]
    assert best[0] == best[1]
    return result.names[best[0]]


def test_importance_of_images_has_patches_channels_and_map() -> None:
    x = torch.randn(80, 3, 12, 12, generator=new_generator())
    y = (x[:, 0, :2, :2].mean((1, 2)) > 0).long()
    result = importance(make_setup(CornerClassifier(), x, y), repeats=2)
    assert most_important_feature(result, "patch") == "rows 0–1, columns 0–1"
    assert most_important_feature(result, "channel") == "channel 0"
    pixel_map = result.maps["input"]
    assert pixel_map.shape == (3, 12, 12)
    assert pixel_map[0, :2, :2].sum() == pytest.approx(pixel_map.sum())
    state = result.view().state()
    assert [len(channel_map["rows"]) for channel_map in state["maps"]] == [12, 6]
    assert len(json.dumps(state)) < 300_000


def test_importance_of_tokens_has_one_feature_per_token() -> None:
    tokens = torch.randint(0, 12, (120, 6), generator=new_generator())
    y = (tokens == 7).any(1).long()
    result = importance(make_setup(TokenClassifier(), tokens, y), repeats=2, decode=lambda token: f"word {token}")
    assert most_important_feature(result, "token") == "word 7"
    assert len(result.features) == 12
    counts = (tokens[result.keys] == 7).sum(1).numpy()
    assert (result.inputs[:, result.feature_index("word 7")] == counts).all()
    assert any("tokens of other samples at its positions" in note for note in result.notes)


def test_importance_of_time_series_has_steps_and_channels() -> None:
    x = torch.randn(80, 10, 2, generator=new_generator())
    result = importance(make_setup(LastStepClassifier(), x, (x[:, -1, 0] > 0).long()), repeats=2)
    assert most_important_feature(result, "step") == "step 9"
    assert most_important_feature(result, "channel") == "channel 0"
    assert result.share[[feature.kind == "step" for feature in result.features]].sum() == pytest.approx(1)


def test_importance_of_two_inputs_names_columns_by_input() -> None:
    torch.manual_seed(0)
    generator = new_generator()
    numbers, categories = torch.randn(60, 4, generator=generator), torch.randint(0, 5, (60, 2), generator=generator)
    setup = make_setup(
        MixedInputModel(), numbers, categories, (categories[:, 0] > 2).long(), feature_names=["u", "v", "w", "x"]
    )
    result = importance(setup, repeats=1)
    assert [feature.name for feature in result.features] == [
        *(f"input 0: {name}" for name in "uvwx"), "input 1: column 0", "input 1: column 1"
    ]  # fmt: skip
    assert (result.size.value > 0).all()


def test_to_shap_returns_explanation_of_attributions() -> None:
    shap = pytest.importorskip("shap")
    x = torch.randn(60, 10, 2, generator=new_generator())
    result = importance(make_setup(LastStepClassifier(), x, (x[:, -1, 0] > 0).long()), repeats=0)
    explanation = result.to_shap()
    assert isinstance(explanation, shap.Explanation)
    assert np.abs(explanation.values).mean(0) == pytest.approx(result.size.value)
    assert explanation.feature_names == result.names


def test_importance_has_plot_text_and_html() -> None:
    x = torch.randn(60, 4, generator=new_generator())
    model = nn.Linear(4, 2)
    result = importance(make_setup(model, x, (x[:, 0] > 0).long()), repeats=1)
    assert len(result.plot().patches) == 4
    assert "mean |SHAP|" in str(result)
    assert "column 0" in result.view().html()
