"""Losses that are proportional to a signed number of each sample, and losses that are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.measurements import Measurements
from nbdebug.setup import Setup


def clipped_policy(logits: Tensor, parts: Sequence[Tensor]) -> Tensor:
    action, logged, advantage = parts
    ratio = (Categorical(logits=logits).log_prob(action) - logged).exp()
    return -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()


def absolute(logits: Tensor, parts: Sequence[Tensor]) -> Tensor:
    return (logits[:, 0] - parts[2]).abs().mean()


def weighted(logits: Tensor, parts: Sequence[Tensor]) -> Tensor:
    action, logged, _ = parts
    return -(F.cross_entropy(logits, action, reduction="none") * logged).mean()


def regression(logits: Tensor, parts: Sequence[Tensor]) -> Tensor:
    return F.mse_loss(logits[:, 0], parts[2])


@pytest.mark.parametrize(
    ("loss", "expected"), [(clipped_policy, True), (absolute, False), (weighted, False), (regression, False)]
)
def test_signed_weights_are_found_by_the_value_of_the_loss(
    loss: Callable[[Tensor, Sequence[Tensor]], Tensor], *, expected: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    states, advantages = torch.randn(32, 5, generator=generator), torch.randn(32, generator=generator)
    actions = torch.randint(4, (32,), generator=generator)
    data = TensorDataset(states, actions, torch.full((32,), 0.25).log(), advantages)
    model = nn.Linear(5, 4)
    setup = Setup(model, DataLoader(data, batch_size=16), loss_fn=lambda output, *parts: loss(output, parts))
    assert Measurements(setup)["has_signed_weights"] is expected
