"""Tests that the number of samples a measurement reads does not depend on small changes of the load."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.exceptions import NotChecked
from nbdebug.measurements import reading_limit
from nbdebug.measurements.label_alignment import label_alignment
from nbdebug.measurements.label_predictability import LabelProbe
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import Measurements
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.clock import Clock


class TimedSamples(Dataset[tuple[Tensor, int]]):
    """Random samples that take some seconds each, on a clock of the test."""

    def __init__(self, clock: Clock, seconds: float, size: int = 600) -> None:
        generator = torch.Generator().manual_seed(0)
        self.clock, self.seconds = clock, seconds
        self.x, self.y = torch.randn(size, 4, generator=generator), torch.randint(0, 3, (size,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.clock.advance(self.seconds)
        return self.x[index], int(self.y[index])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(reading_limit.time, "perf_counter", clock)
    return clock


def timed_setup(clock: Clock, seconds: float, size: int = 600) -> Setup:
    loader = DataLoader(TimedSamples(clock, seconds, size), 16)
    return Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss())


def count_until_end(clock: Clock, seconds_per_sample: float, limit: ReadingLimit, most: int = 10_000) -> int:
    for count in range(most):
        if limit.ends_after(count):
            return count
        clock.advance(seconds_per_sample)
    return most


@pytest.mark.parametrize("load", [1.0, 1.2, 1.5])
@pytest.mark.parametrize(("seconds", "count"), [(0.0008, 320), (0.0045, 80), (0.006, 80)])
def test_reading_limit_ends_at_same_count_under_load(clock: Clock, seconds: float, count: int, load: float) -> None:
    assert count_until_end(clock, load * seconds, ReadingLimit(0.2, 80)) == count


def test_reading_limit_ends_before_minimum_only_if_that_takes_eight_times_as_long(clock: Clock) -> None:
    limit = ReadingLimit(0.2, 80)
    count = count_until_end(clock, 0.05, limit)
    assert 2 < count < 80
    assert limit.reason(count, 600) == f"only {count} of 600 samples could be read within 1.6 s; 80 are needed"


@pytest.mark.parametrize(("earlier", "count", "ends"), [(64, 96, True), (100, 140, False), (130, 170, True)])
def test_reading_limit_of_batches_ends_where_one_passes_a_step(
    clock: Clock, earlier: int, count: int, ends: bool
) -> None:
    limit = ReadingLimit(0.2, 80)
    clock.advance(0.3)
    assert limit.ends_within(earlier, count) is ends


@pytest.mark.parametrize("load", [1.0, 1.6])
def test_tables_of_slow_datasets_have_at_least_128_rows(clock: Clock, load: float) -> None:
    tables: Any = Measurements(timed_setup(clock, 0.009 * load))["tables"]
    assert len(tables["train"]) == 128


def test_label_alignment_of_very_slow_dataset_says_why_it_is_not_checked(clock: Clock) -> None:
    setup = timed_setup(clock, 0.05)
    probe: LabelProbe = Measurements(timed_setup(clock, 0.0))["label_probe"]
    with pytest.raises(NotChecked, match="samples could be read within"):
        label_alignment(setup, probe)


def test_constant_loss_does_not_depend_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    values = []
    for tick in (0.0, 0.0002, 0.0006):
        own_clock = Clock(tick=tick)
        monkeypatch.setattr(time, "perf_counter", own_clock)
        torch.manual_seed(0)
        values.append(Measurements(timed_setup(own_clock, 0.0, 512))["constant_loss"].value)
    assert len(set(values)) == 1
