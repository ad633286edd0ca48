"""Tests of the samples that a checkup reads of datasets that are slow."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.measurements import Measurements
from nbdebug.setup import Setup
from tests.clock import CLOCK


class SlowSamples(Dataset[Any]):
    """Three hundred samples, each of which takes some seconds of the clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 300

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        CLOCK.advance(self.seconds)
        return torch.full((3,), float(index)), index % 2


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 300), (0.01, 128), (0.1, 20)])
def test_samples_of_slow_dataset_are_enough_for_rules_on_labels(seconds: float, count: int) -> None:
    setup = Setup(nn.Linear(3, 2), DataLoader(SlowSamples(seconds), 16), loss_fn=nn.CrossEntropyLoss())
    (samples,) = Measurements(setup)["samples"]
    assert len(samples.by_index) == count
