"""Tests of the fixed samples: one batch if the loss allows it, and measurements planned by steps."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import mlp
from nbdebug.setup import Setup
from nbdebug.watching.held_out_samples import FixedSamples
from tests.watching.points import labeled_points


class ContrastiveLoss(nn.Module):
    """A loss that depends on the batch size: each sample is compared with all others of its batch."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output @ output.t(), torch.arange(len(output)))


def setup_of(loss_fn: nn.Module) -> Setup:
    return Setup(mlp(6, 16, 2), DataLoader(TensorDataset(*labeled_points(512)), 32), loss_fn=loss_fn)


@pytest.mark.parametrize(
    ("loss_fn", "expected_batches"),
    [(nn.CrossEntropyLoss(), 1), (ContrastiveLoss(), 8), (nn.CrossEntropyLoss(reduction="sum"), 8)],
    ids=["mean", "contrastive", "sum"],
)
def test_fixed_samples_are_one_batch_if_the_loss_is_the_same(loss_fn: nn.Module, expected_batches: int) -> None:
    setup = setup_of(loss_fn)
    samples = FixedSamples.from_setup(setup)
    assert len(samples.batches["train"]) == expected_batches
    assert samples.data_summary["batch_size"] == 32
    losses = [float(loss_fn(setup.model(*batch.args), batch.target)) for batch in setup.batches(8, "train")]
    assert samples.evaluate()["sample_train_loss"] == pytest.approx(sum(losses) / 8, rel=1e-4)


class SlowNetwork(nn.Module):
    """Works for 15 ms of processor time in each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp(6, 16, 2)

    def forward(self, x: Tensor) -> Tensor:
        end = time.thread_time() + 0.015
        while time.thread_time() < end:
            pass
        return self.layers(x)  # type: ignore[no-any-return]


def test_fixed_samples_of_a_slow_model_stay_apart() -> None:
    loader = DataLoader(TensorDataset(*labeled_points(512)), 32)
    samples = FixedSamples.from_setup(Setup(SlowNetwork(), loader, loss_fn=nn.CrossEntropyLoss()))
    assert len(samples.batches["train"]) == 8
    assert samples.evaluate()["sample_train_loss"] > 0


def test_fixed_samples_are_the_same_in_any_random_state() -> None:
    dataset = TensorDataset(*labeled_points(512))
    samples = []
    for seed in (1, 2):
        loader = DataLoader(dataset, 32, shuffle=True)
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        samples.append(FixedSamples.from_setup(Setup(mlp(6, 16, 2), loader, loss_fn=nn.CrossEntropyLoss())))
        assert torch.equal(torch.get_rng_state(), state)
    first, second = (fixed.batches["train"][0].args[0] for fixed in samples)
    assert torch.equal(first, second)
    assert not torch.equal(first, dataset.tensors[0][: len(first)])  # they are shuffled


def test_planned_measurements_grow_apart_and_stay_within_their_share() -> None:
    samples = FixedSamples.from_setup(setup_of(nn.CrossEntropyLoss()))
    planned_steps = [0]
    for step in range(16, 2000, 16):
        if samples.is_planned(step, planned_steps[-1]):
            samples.evaluate()
            planned_steps.append(step)
    assert len(planned_steps) >= 7
    assert all(later >= 1.4 * earlier for earlier, later in pairwise(planned_steps))
    assert (len(planned_steps) - 1) * 256 <= 0.02 * 3 * planned_steps[-1] * 32
