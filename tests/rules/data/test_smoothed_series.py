"""Tests of D115 on series that average later steps of another series."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

_Series = np.ndarray
WIDTH = 12
_rng = np.random.default_rng(0)
NOISY = np.cumsum(_rng.normal(size=700)) * 0.1 + np.sin(np.arange(700) / 5) + 0.3 * _rng.normal(size=700)
CONTROL = _rng.normal(size=700)


def centered(series: _Series, width: int) -> _Series:
    return np.convolve(np.pad(series, width // 2, mode="edge"), np.ones(width) / width, mode="valid")


def weighted(series: _Series) -> _Series:
    return np.convolve(np.pad(series, 2, mode="edge"), np.array([1, 4, 6, 4, 1]) / 16, mode="valid")


def trailing(series: _Series, width: int) -> _Series:
    return np.convolve(series, np.ones(width) / width)[: len(series)]


def exponential(series: _Series) -> _Series:
    smooth = series.copy()
    for step in range(1, len(series)):
        smooth[step] = 0.7 * smooth[step - 1] + 0.3 * series[step]
    return smooth


def standardized(series: _Series) -> _Series:
    return (series - series.mean()) / series.std()


def controlled() -> _Series:
    """Return a state that is a linear function of its last value and of the control."""
    state = np.zeros(len(CONTROL))
    for step in range(1, len(state)):
        state[step] = 0.9 * state[step - 1] + 0.5 * CONTROL[step - 1]
    return state


def forecast(*columns: _Series, ahead: int = 1) -> Callable[[], Setup]:
    """Return a setup that predicts the first column some steps after each window."""
    starts = range(len(columns[0]) - WIDTH - ahead + 1)
    x = np.stack([np.stack([column[start : start + WIDTH] for column in columns], 1) for start in starts])
    y = np.array([columns[0][start + WIDTH + ahead - 1] for start in starts])
    model = nn.Sequential(nn.Flatten(), nn.Linear(WIDTH * len(columns), 1), nn.Flatten(0))
    return lambda: Setup(model, DataLoader(_dataset(x, y), 32, shuffle=True), loss_fn=nn.MSELoss())


def _dataset(x: _Series, y: _Series) -> TensorDataset:
    tensors: list[Tensor] = [torch.tensor(part, dtype=torch.float32) for part in (x, y)]
    return TensorDataset(*tensors)


FAULTS = {
    "centered mean of 3": forecast(NOISY, centered(NOISY, 3)),
    "centered mean of 7": forecast(NOISY, centered(NOISY, 7)),
    "weighted mean": forecast(NOISY, weighted(NOISY)),
    "standardized": forecast(standardized(NOISY), standardized(centered(NOISY, 5))),
    "among other columns": forecast(NOISY, CONTROL, centered(NOISY, 5)),
    "two steps ahead": forecast(NOISY, centered(NOISY, 5), ahead=2),
}
HEALTHY = {
    "trailing mean": forecast(NOISY, trailing(NOISY, 3)),
    "exponential mean": forecast(NOISY, exponential(NOISY)),
    "control of a noiseless system": forecast(controlled(), CONTROL),
    "two sines": forecast(np.sin(np.arange(700) / 7), np.cos(np.arange(700) / 11)),
    "noise": forecast(NOISY, CONTROL),
    "far ahead": forecast(NOISY, centered(NOISY, 3), ahead=5),
}


@pytest.mark.parametrize("name", FAULTS)
def test_target_leak_of_series_that_averages_later_steps_is_error(name: str) -> None:
    (finding,) = checkup_findings(FAULTS[name](), "D115")
    assert finding.severity == "error"
    assert "averages column 0" in finding.message


def in_order(column: _Series, target: _Series, shuffled: bool = False) -> Setup:
    """Return a setup of a table in temporal order with one column of the target's own past."""
    x, y = np.stack([CONTROL[: len(column)], column, np.roll(CONTROL, 3)[: len(column)]], 1), target
    order = np.random.default_rng(1).permutation(len(y)) if shuffled else np.arange(len(y))
    dataset = _dataset(x[order], y[order])
    return Setup(nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), DataLoader(dataset, 32), loss_fn=nn.MSELoss())


@pytest.mark.parametrize("width", [3, 7])
def test_target_leak_of_column_that_averages_its_own_target_is_error(width: int) -> None:
    ends = slice(width, None)
    (finding,) = checkup_findings(in_order(trailing(NOISY, width)[ends], NOISY[ends]), "D115")
    assert finding.severity == "error"
    assert finding.evidence["rows before and after"] == (width - 1, 0)
    scaled = in_order(standardized(trailing(NOISY, width))[ends], standardized(NOISY)[ends])
    assert len(checkup_findings(scaled, "D115")) == 1


@pytest.mark.parametrize("width", [3, 5])
def test_target_leak_of_column_that_averages_later_targets_is_error(width: int) -> None:
    ends = slice(width, -width)
    (finding,) = checkup_findings(in_order(centered(NOISY, width)[ends], NOISY[ends]), "D115")
    assert finding.evidence["rows before and after"] == (width // 2, width // 2)


def test_target_leak_of_column_that_averages_earlier_targets_is_quiet() -> None:
    earlier = trailing(NOISY, 3)[3:-1]
    assert checkup_findings(in_order(earlier, NOISY[4:]), "D115") == []
    assert checkup_findings(in_order(exponential(NOISY)[3:-1], NOISY[4:]), "D115") == []


@pytest.mark.parametrize("name", HEALTHY)
def test_target_leak_of_series_without_later_steps_is_quiet(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "D115") == []
