"""Tests of the gradient noise scale."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.tools.batch_size import batch_size
from nbdebug.tools.batch_size.noise_scale import noise_scale_from_norms


def test_noise_scale_from_norms_interval_contains_true_value() -> None:
    random = torch.Generator().manual_seed(0)
    mean, deviation, pairs = torch.full((50,), 0.2), 1.5, []
    for _ in range(16):
        gradients = mean + deviation * torch.randn(64, 50, generator=random)
        small_batches = gradients.view(8, 8, 50).mean(1)
        pairs.append((float(small_batches.square().sum(1).mean()), float(small_batches.mean(0).square().sum())))
    true_scale = 50 * deviation**2 / float(mean.square().sum())
    noise_scale = noise_scale_from_norms(pairs, 8, 64)
    assert noise_scale.low is not None
    assert noise_scale.high is not None
    assert noise_scale.low < true_scale < noise_scale.high
    assert noise_scale.high < 2 * noise_scale.low


def test_noise_scale_from_norms_of_pure_noise_has_only_lower_bound() -> None:
    pairs, random = [], torch.Generator().manual_seed(1)
    for _ in range(16):
        small_batches = torch.randn(8, 8, 50, generator=random).mean(1)
        pairs.append((float(small_batches.square().sum(1).mean()), float(small_batches.mean(0).square().sum())))
    noise_scale = noise_scale_from_norms(pairs, 8, 64)
    assert noise_scale.value is None
    assert noise_scale.high is None
    assert noise_scale.low is not None
    assert "cannot be distinguished from noise" in str(noise_scale)


def test_noise_scale_from_norms_of_gradient_below_noise_raises_not_checked() -> None:
    with pytest.raises(NotChecked, match="cannot be distinguished from noise"):
        noise_scale_from_norms([(8.0, 0.5 + 0.01 * i) for i in range(4)], 8, 64)


def test_batch_size_noise_scale_is_that_of_current_weights() -> None:
    torch.manual_seed(0)
    x = torch.randn(2000, 10)
    y, model, loss_fn = (x @ torch.randn(10, 3)).argmax(1), nn.Linear(10, 3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    residuals = (model(x).softmax(1) - nn.functional.one_hot(y, 3)).detach()
    gradients = torch.cat([(residuals[:, :, None] * x[:, None, :]).flatten(1), residuals], 1)
    mean = gradients.mean(0)
    true_scale = float((gradients - mean).square().sum(1).mean() / mean.square().sum())
    loader = DataLoader(TensorDataset(x, y), 32, shuffle=True)
    setup = Setup(model, loader, loss_fn=loss_fn, optimizers=(optimizer,))
    noise_scale = batch_size(setup, most=8).noise
    assert noise_scale.low is not None
    assert noise_scale.high is not None
    assert noise_scale.low < true_scale < noise_scale.high


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        (classifier(loss_fn=nn.CrossEntropyLoss(reduction="sum")), "not a mean"),
        (classifier(nn.BatchNorm1d(3)), "batch normalization"),
        (classifier(), "256 different samples"),
    ],
    ids=["summed loss", "batch normalization", "too few samples"],
)
def test_batch_size_noise_scale_that_is_undefined_has_reason(setup: Setup, reason: str) -> None:
    assert reason in batch_size(setup, most=8).noise.why
