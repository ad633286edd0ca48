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
from tests.rules.rule_findings import rule_findings


class SlowSamples(Dataset[Any]):
    """Three hundred samples, each of which takes some seconds of the clock."""

    def __init__(self, seconds: float, distinct: int = 300) -> None:
        self.seconds, self.distinct = seconds, distinct
        self.values = torch.randn(distinct, 3, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return 300

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        CLOCK.advance(self.seconds)
        return self.values[index % self.distinct], index % self.distinct % 2


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 300), (0.01, 128), (0.1, 20)])
def test_samples_of_slow_dataset_are_enough_for_rules_on_labels(seconds: float, count: int) -> None:
    setup = Setup(nn.Linear(3, 2), DataLoader(SlowSamples(seconds), 16), loss_fn=nn.CrossEntropyLoss())
    (samples,) = Measurements(setup)["samples"]
    assert len(samples.by_index) == count


@pytest.mark.parametrize(("distinct", "codes"), [(30, ["D107"]), (300, [])])
def test_duplicate_samples_of_slow_dataset_are_estimated_from_the_samples_read(distinct: int, codes: list[str]) -> None:
    setup = Setup(nn.Linear(3, 2), DataLoader(SlowSamples(0.01, distinct), 16), loss_fn=nn.CrossEntropyLoss())
    findings = rule_findings(setup, "D107")
    assert [finding.code for finding in findings] == codes
    assert all(abs(finding.evidence["share of copies"] - 0.9) < 0.05 for finding in findings)
