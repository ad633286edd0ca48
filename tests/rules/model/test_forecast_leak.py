"""Tests of M305 on forecasts of real-valued series, at every step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

SERIES = torch.randn(64, 3, 21, generator=torch.Generator().manual_seed(0)).cumsum(2)  # sensors × steps
PAST, FOLLOWING = SERIES[:, :, :-1], SERIES[:, :, 1:]


class Convolutions(nn.Module):
    """Dilated convolutions over (batch × sensors × steps), padded on both sides or on the left."""

    def __init__(self, sensors: int, outputs: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.first = nn.Conv1d(sensors, 8, 3, padding=0 if causal else 1)
        self.second = nn.Conv1d(8, outputs, 3, dilation=2, padding=0 if causal else "same")

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(F.pad(x, (2, 0)) if self.causal else x).relu()
        return self.second(F.pad(h, (4, 0)) if self.causal else h)


class Recurrent(nn.Module):
    """A recurrent network over (batch × steps × sensors), which forecasts the first sensor."""

    def __init__(self, *, bidirectional: bool, flat: bool = False) -> None:
        super().__init__()
        self.body = nn.LSTM(3, 8, batch_first=True, bidirectional=bidirectional)
        self.head, self.flat = nn.Linear(16 if bidirectional else 8, 1), flat

    def forward(self, x: Tensor) -> Tensor:
        forecast: Tensor = self.head(self.body(x)[0])
        return forecast.squeeze(2) if self.flat else forecast


class Smoother(nn.Module):
    """Restores the first sensor of the same steps from all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 1, 5, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


def forecast_setup(model: nn.Module, x: Tensor, y: Tensor) -> Setup:
    return minimal_setup(model, x, y, nn.MSELoss())


STEPS_FIRST = PAST.transpose(1, 2)
LEAKING: dict[str, Callable[[], Setup]] = {
    "all sensors": lambda: forecast_setup(Convolutions(3, 3, causal=False), PAST, FOLLOWING),
    "one sensor": lambda: forecast_setup(Convolutions(3, 1, causal=False), PAST, FOLLOWING[:, :1]),
    "both directions": lambda: forecast_setup(Recurrent(bidirectional=True), STEPS_FIRST, FOLLOWING[:, 0].unsqueeze(2)),
    "no axis of sensors": lambda: forecast_setup(
        Recurrent(bidirectional=True, flat=True), STEPS_FIRST, FOLLOWING[:, 0]
    ),
}
CAUSAL: dict[str, Callable[[], Setup]] = {
    "left padding": lambda: forecast_setup(Convolutions(3, 3, causal=True), PAST, FOLLOWING),
    "left padding, one sensor": lambda: forecast_setup(Convolutions(3, 1, causal=True), PAST, FOLLOWING[:, :1]),
    "one direction": lambda: forecast_setup(Recurrent(bidirectional=False), STEPS_FIRST, FOLLOWING[:, 0].unsqueeze(2)),
    "smoothing of the same steps": lambda: forecast_setup(Smoother(), PAST, PAST[:, :1]),
    "reconstruction": lambda: forecast_setup(Convolutions(3, 3, causal=False), PAST, PAST),
}


@pytest.mark.parametrize("name", LEAKING)
def test_future_leak_of_forecast_that_reads_later_steps_is_error(name: str) -> None:
    (finding,) = rule_findings(LEAKING[name](), "M305")
    assert finding.severity == "error"
    assert finding.where.line is not None


@pytest.mark.parametrize("name", CAUSAL)
def test_future_leak_of_causal_forecast_or_other_task_is_quiet(name: str) -> None:
    assert rule_findings(CAUSAL[name](), "M305") == []
