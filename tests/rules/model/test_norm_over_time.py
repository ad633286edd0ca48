"""Tests of M305 on causal models that normalize over time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings


class StackedConvolutions(nn.Module):
    """Causal convolutions of series (batch × channels × time), each with a normalization; one value for each step."""

    def __init__(self, make_norm: Callable[[int], nn.Module], channels: int = 1) -> None:
        super().__init__()
        sizes = [channels, 8, 8]
        self.convolutions = nn.ModuleList([nn.Conv1d(size, 8, 3) for size in sizes[:-1]])
        self.norms = nn.ModuleList([make_norm(8) for _ in sizes[:-1]])
        self.head = nn.Conv1d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(convolution(F.pad(x, (2, 0)))).relu()
        return self.head(x)[:, 0]


class ChannelNorm(nn.Module):
    """Normalizes the channels of each step."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class SeriesNorm(nn.Module):
    """Standardizes each channel over all steps, by a function of torch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.instance_norm(x) * self.scale


SERIES = torch.randn(64, 3, 21, generator=torch.Generator().manual_seed(3)).cumsum(2) / 4
NORMS_OVER_TIME: dict[str, tuple[Callable[[int], nn.Module], int, str]] = {
    "one group": (lambda channels: nn.GroupNorm(1, channels), 1, "make_norm(8)"),
    "groups": (lambda channels: nn.GroupNorm(4, channels), 3, "make_norm(8)"),
    "each channel": (lambda channels: nn.InstanceNorm1d(channels, affine=True), 1, "nn.InstanceNorm1d("),
    "channels and steps": (lambda channels: nn.LayerNorm([channels, 20]), 3, "make_norm(8)"),
    "function": (SeriesNorm, 3, "F.instance_norm("),
}
NORMS_OF_STEPS: dict[str, Callable[[int], nn.Module]] = {
    "channels": ChannelNorm,
    "batch": nn.BatchNorm1d,
    "none": lambda _: nn.Identity(),
}


def series_setup(make_norm: Callable[[int], nn.Module], channels: int, ahead: int = 1) -> Setup:
    x, y = SERIES[:, :channels, :-1], SERIES[:, 0, ahead : ahead + 20]
    return minimal_setup(StackedConvolutions(make_norm, channels), x, y, nn.MSELoss())


@pytest.mark.parametrize("name", NORMS_OVER_TIME)
def test_future_leak_of_a_normalization_over_time_points_to_the_line_that_creates_it(name: str) -> None:
    make_norm, channels, source = NORMS_OVER_TIME[name]
    (finding,) = checkup_findings(series_setup(make_norm, channels), "M305")
    assert source in (finding.where.source or "")
    assert "mean and variance over all positions" in finding.cause


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NORMS_OF_STEPS)
def test_future_leak_of_a_normalization_of_each_step_is_quiet(name: str, channels: int) -> None:
    assert checkup_findings(series_setup(NORMS_OF_STEPS[name], channels), "M305") == []


def test_future_leak_of_a_series_that_is_reconstructed_is_quiet() -> None:
    assert checkup_findings(series_setup(lambda channels: nn.GroupNorm(1, channels), 1, ahead=0), "M305") == []
