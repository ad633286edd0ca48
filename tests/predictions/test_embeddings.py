"""Tests of the embed option of collect_predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.predictions.collection import collect_predictions
from nbdebug.setup import Setup


class LayeredModel(nn.Module):
    """One layer for each kind of output; the output of the last is modified in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.conv1d, self.lstm = nn.Conv2d(1, 4, 3), nn.Conv1d(1, 5, 3), nn.LSTM(6, 7)
        self.linear, self.unused = nn.Linear(36, 3), nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.conv(x)
        self.conv1d(x.flatten(1)[:, None])
        self.lstm(x[:, 0].transpose(0, 1))
        return self.linear(x.flatten(1)).relu_()


def test_collect_predictions_with_embed_stores_pooled_layer_output() -> None:
    torch.manual_seed(0)
    x, model = torch.randn(10, 1, 6, 6), LayeredModel()
    loader = DataLoader(TensorDataset(x, torch.zeros(10).long()), 4)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss())
    expected = {
        "conv": model.conv(x).mean((2, 3)),
        "conv1d": model.conv1d(x.flatten(1)[:, None]).mean(2),
        "lstm": model.lstm(x[:, 0].transpose(0, 1))[0].mean(0),
        "linear": model.linear(x.flatten(1)),
    }
    for name, values in expected.items():
        embedding = collect_predictions(setup, loader, embed=name).embedding
        np.testing.assert_allclose(embedding, values.detach().numpy(), atol=1e-6)
    assert collect_predictions(setup, loader, embed=model.conv).embedding.shape == (10, 4)
    assert collect_predictions(setup, loader).embedding is None
    assert not model.conv._forward_hooks
    with pytest.raises(SetupError, match=r"embed is 'cnov'; expected a layer of the model. Did you mean 'conv'\?"):
        collect_predictions(setup, loader, embed="cnov")
    with pytest.raises(SetupError, match="a Linear of another model"):
        collect_predictions(setup, loader, embed=nn.Linear(1, 1))
    with pytest.raises(SetupError, match="embed is 'unused', which returned no tensor"):
        collect_predictions(setup, loader, embed="unused")
