"""Importance of pictures, tokens, series, categories and several inputs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.importance import importance
from nbdebug.tools.importance.result import Importance
from tests.attribution.networks import MixedInputModel as Mixed

GENERATOR = torch.Generator().manual_seed(0)


def setup_of(model: nn.Module, *tensors: Tensor, **given: Any) -> Setup:
    loader = DataLoader(TensorDataset(*tensors), batch_size=50)
    return Setup(model, loader, loader, loss_fn=nn.CrossEntropyLoss(), **given)


class Corner(nn.Module):
    """Looks at the upper left corner of the first channel."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, x: Tensor) -> Tensor:
        seen = self.scale * x[:, 0, :2, :2].mean((1, 2))
        return torch.stack([-seen, seen], 1)


class Bag(nn.Module):
    """The mean of embeddings, in which one token says it all."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 1)
        with torch.no_grad():
            self.embed.weight[:] = -0.5
            self.embed.weight[7] = 5.0

    def forward(self, tokens: Tensor) -> Tensor:
        score = self.embed(tokens).sum(1)
        return torch.cat([-score, score], 1)


class Steps(nn.Module):
    """The first channel of a series at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([-self.scale * x[:, -1, 0], self.scale * x[:, -1, 0]], 1)


def first(found: Importance, kind: str) -> str:
    """The most important feature of a kind, by both measures alike."""
    mine = [j for j, one in enumerate(found.features) if one.kind == kind]
    by = [mine[int(np.nanargmax(one[mine]))] for one in (found.size.value, found.drop)]
    assert by[0] == by[1]
    return found.names[by[0]]


def test_of_a_picture_it_is_a_map_with_patches_and_channels() -> None:
    x = torch.randn(80, 3, 12, 12, generator=GENERATOR)
    y = (x[:, 0, :2, :2].mean((1, 2)) > 0).long()
    found = importance(setup_of(Corner(), x, y), repeats=2)
    assert first(found, "patch") == "rows 0–1, columns 0–1"
    assert first(found, "channel") == "channel 0"
    where = found.maps["input"]
    assert where.shape == (3, 12, 12)
    assert where[0, :2, :2].sum() == pytest.approx(where.sum())
    state = found.view().state()
    assert [len(one["rows"]) for one in state["maps"]] == [12, 6]
    assert len(json.dumps(state)) < 300_000


def test_of_tokens_it_is_a_row_a_token() -> None:
    tokens = torch.randint(0, 12, (120, 6), generator=GENERATOR)
    y = (tokens == 7).any(1).long()
    found = importance(setup_of(Bag(), tokens, y), repeats=2, decode=lambda token: f"word {token}")
    assert first(found, "token") == "word 7"
    assert len(found.features) == 12
    counted = (tokens[found.keys] == 7).sum(1).numpy()
    assert (found.inputs[:, found.feature_index("word 7")] == counted).all()
    assert any("tokens of other samples at its positions" in note for note in found.notes)


def test_of_a_series_it_is_steps_and_channels() -> None:
    x = torch.randn(80, 10, 2, generator=GENERATOR)
    found = importance(setup_of(Steps(), x, (x[:, -1, 0] > 0).long()), repeats=2)
    assert first(found, "step") == "step 9"
    assert first(found, "channel") == "channel 0"
    assert found.share[[one.kind == "step" for one in found.features]].sum() == pytest.approx(1)


def test_several_inputs_and_columns_of_categories() -> None:
    torch.manual_seed(0)
    numbers, kinds = torch.randn(60, 4, generator=GENERATOR), torch.randint(0, 5, (60, 2), generator=GENERATOR)

    setup = setup_of(Mixed(), numbers, kinds, (kinds[:, 0] > 2).long(), feature_names=["u", "v", "w", "x"])
    found = importance(setup, repeats=1)
    assert [one.name for one in found.features] == [
        *(f"input 0: {one}" for one in "uvwx"), "input 1: column 0", "input 1: column 1"
    ]  # fmt: skip
    assert (found.size.value > 0).all()


def test_shap_takes_it() -> None:
    shap = pytest.importorskip("shap")
    x = torch.randn(60, 10, 2, generator=GENERATOR)
    found = importance(setup_of(Steps(), x, (x[:, -1, 0] > 0).long()), repeats=0)
    given = found.to_shap()
    assert isinstance(given, shap.Explanation)
    assert np.abs(given.values).mean(0) == pytest.approx(found.size.value)
    assert given.feature_names == found.names


def test_it_draws_and_prints() -> None:
    x = torch.randn(60, 4, generator=GENERATOR)
    model = nn.Linear(4, 2)
    found = importance(setup_of(model, x, (x[:, 0] > 0).long()), repeats=1)
    assert len(found.plot().patches) == 4
    assert "mean |SHAP|" in str(found)
    assert "column 0" in found.view().html()
