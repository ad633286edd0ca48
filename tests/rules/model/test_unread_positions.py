"""Tests of M306 on positions of an input that predict the target and do not influence the output."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

ROWS, STEPS = 600, 24


def series(seed: int = 0) -> Tensor:
    return torch.randn(ROWS, 1, STEPS, generator=torch.Generator().manual_seed(seed))


def images() -> Tensor:
    return torch.randn(ROWS, 1, 10, 10, generator=torch.Generator().manual_seed(0))


def tokens() -> Tensor:
    return torch.randint(0, 6, (ROWS, 12), generator=torch.Generator().manual_seed(0))


def setup_of(model: nn.Module, x: Tensor, y: Tensor) -> Setup:
    loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
    loss = nn.MSELoss() if y.is_floating_point() else nn.CrossEntropyLoss()
    return Setup(model, loader, loss_fn=loss, optimizers=(torch.optim.Adam(model.parameters()),))


class CausalBlock(nn.Module):
    def __init__(self, channels: int, dilation: int, normalized: bool) -> None:
        super().__init__()
        self.reach = dilation
        self.conv = nn.Conv1d(channels, 8, kernel_size=2, dilation=dilation)
        self.norm = nn.BatchNorm1d(8) if normalized else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.norm(self.conv(F.pad(x, (self.reach, 0))))
        return F.gelu(values)


class CausalStack(nn.Module):
    """Causal convolutions whose last step is read; with dilations that double, it depends on 16 steps, else on 11."""

    def __init__(self, doubles: bool, each_step: bool = False, normalized: bool = False) -> None:
        super().__init__()
        self.doubles, self.each_step = doubles, each_step
        self.blocks = nn.Sequential(*(CausalBlock(8 if k else 1, self.dilation(k), normalized) for k in range(4)))
        self.head = nn.Linear(8, 1)

    def dilation(self, level: int) -> int:
        return 2**level if self.doubles else 1 + level

    def forward(self, x: Tensor) -> Tensor:
        states = self.blocks(x)
        read: Tensor = self.head(states.mT if self.each_step else states[:, :, -1])
        return read.squeeze(-1)


class Reader(nn.Module):
    """A linear head on what a kind of selection leaves of the input."""

    def __init__(self, kind: str, width: int, outputs: int = 1) -> None:
        super().__init__()
        self.kind, self.head, self.embed = kind, nn.Linear(width, outputs), nn.Embedding(6, 4)
        self.stride = nn.Conv1d(1, 4, 1, stride=2)  # the stride
        self.norm = nn.BatchNorm1d(STEPS)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "crop":
            x = x[:, :, 3:-3, 3:-3]
        elif self.kind == "random crop":
            start = int(torch.randint(0, 7, ())) if self.training else 3
            x = x[:, :, start : start + 4, start : start + 4]
        elif self.kind == "nearest":
            x = F.interpolate(x, size=(5, 5))
        elif self.kind == "stride":
            x = self.stride(x)
        elif self.kind == "first steps":
            x = x[:, :, :20]
        elif self.kind == "tokens":
            x = self.embed(x[:, :9])
        elif self.kind == "all tokens":
            x = self.embed(x)
        elif self.kind == "columns":
            x = self.norm(x[:, 0])[:, :20]
        scores: Tensor = self.head(x.flatten(1))
        return scores.squeeze(1)


def first_steps() -> Tensor:
    x = series()[:, 0]
    return x[:, 9] + 0.7 * x[:, 10]


def odd_steps() -> Tensor:
    return series()[:, 0, 1::2].mean(1) * 3


def border() -> Tensor:
    return images()[:, 0, 0].sum(1) / 3


def last_tokens() -> Tensor:
    return (tokens()[:, -1] > 2).long()


def last_columns() -> Tensor:
    return (series()[:, 0, -2:].sum(1) > 0).long()


Build = Callable[[], nn.Module]
Data = Callable[[], Tensor]

FAULTS: dict[str, tuple[Build, Data, Data, str, str]] = {
    "dilations": (lambda: CausalStack(doubles=False), series, first_steps, "1 + level", "positions 0 to 12 of axis 2"),
    "dilations and statistics": (
        lambda: CausalStack(doubles=False, normalized=True),
        series,
        first_steps,
        "1 + level",
        "positions 0 to 12 of axis 2",
    ),
    "crop": (lambda: Reader("crop", 16), images, border, "3:-3, 3:-3", "the first index is (0, 0, 0)"),
    "nearest": (
        lambda: Reader("nearest", 25),
        images,
        lambda: images()[:, 0, 1::2].mean((1, 2)) * 7,
        "F.interpolate(",
        "75 of the 100 values",
    ),
    "stride": (lambda: Reader("stride", 48), series, odd_steps, "# the stride", "12 positions from 1 to 23"),
    "columns": (
        lambda: Reader("columns", 20, 2),
        series,
        last_columns,
        "self.norm(x[:, 0])[:, :20]",
        "positions 20 to 23 of axis 2",
    ),
    "tokens": (lambda: Reader("tokens", 36, 2), tokens, last_tokens, "x[:, :9]", "positions 9 to 11 of axis 1"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_positions_without_influence_that_predict_the_target_are_reported(name: str) -> None:
    build, inputs, targets, source, positions = FAULTS[name]
    torch.manual_seed(0)
    (finding,) = rule_findings(setup_of(build(), inputs(), targets()), "M306")
    assert finding.severity == "error"
    assert source in str(finding.where.source)
    assert positions in finding.message


HEALTHY: dict[str, tuple[Build, Data, Data]] = {
    "doubling dilations": (lambda: CausalStack(doubles=True), series, first_steps),
    "target in the steps that are read": (
        lambda: CausalStack(doubles=False),
        series,
        lambda: series()[:, 0, -5] + series()[:, 0, -2],
    ),
    "one output per step": (
        lambda: CausalStack(doubles=False, each_step=True),
        series,
        lambda: series()[:, 0].cumsum(1),
    ),
    "crop around the object": (lambda: Reader("crop", 16), images, lambda: images()[:, 0, 3:-3, 3:-3].mean((1, 2)) * 4),
    "crop in evaluation only": (lambda: Reader("random crop", 16), images, border),
    "steps that repeat what is read": (
        lambda: Reader("first steps", 20),
        lambda: series()[:, :, :4].repeat(1, 1, 6),
        lambda: series()[:, 0, 0],
    ),
    "constant padding": (
        lambda: Reader("first steps", 20),
        lambda: series() * (torch.arange(STEPS) < 20),
        lambda: series()[:, 0, 0],
    ),
    "padding tokens": (
        lambda: Reader("tokens", 36, 2),
        lambda: tokens() * (torch.arange(12) < 9),
        lambda: (tokens()[:, 0] > 2).long(),
    ),
    "all tokens": (lambda: Reader("all tokens", 48, 2), tokens, last_tokens),
    "random target": (
        lambda: Reader("first steps", 20),
        series,
        lambda: torch.randn(ROWS, generator=torch.Generator().manual_seed(1)),
    ),
    "small part of the information": (
        lambda: Reader("first steps", 20),
        series,
        lambda: series()[:, 0, 0] + 0.3 * series()[:, 0, -1],
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_positions_that_do_not_matter_or_are_read_are_not_reported(name: str) -> None:
    build, inputs, targets = HEALTHY[name]
    torch.manual_seed(0)
    assert rule_findings(setup_of(build(), inputs(), targets()), "M306") == []
