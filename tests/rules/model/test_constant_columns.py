"""M306 of layers that get a new tensor of zeros in the place of some of their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_findings

Join = Callable[["TwoBranches", Tensor], Tensor]


class TwoBranches(nn.Module):
    """A classifier of two branches, which ``join`` joins for the next layer."""

    def __init__(self, join: Join) -> None:
        super().__init__()
        self.join, self.first, self.second, self.head = join, nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(16, 3)
        self.register_buffer("memory", torch.zeros(1, 8))
        self.prompt, self.gate = nn.Parameter(torch.zeros(1, 8)), 0.0

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.join(self, x))
        return scores + self.first(x)[:, :3] + self.second(x)[:, :3]


class Convolutions(nn.Module):
    """Two maps of an image that are joined along the channels, or along the rows."""

    def __init__(self, has_zeros: bool, axis: int = 1) -> None:
        super().__init__()
        self.has_zeros, self.axis, self.first, self.second = has_zeros, axis, nn.Conv2d(1, 4, 1), nn.Conv2d(1, 4, 1)
        self.mix, self.head = nn.Conv2d(8 if axis == 1 else 4, 4, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        maps, others = self.first(x.view(-1, 1, 2, 2)), self.second(x.view(-1, 1, 2, 2))
        joined = torch.cat([maps, torch.zeros_like(others) if self.has_zeros else others], self.axis)
        scores: Tensor = self.head(torch.relu(self.mix(joined)).mean((2, 3)) + others.mean((2, 3)))
        return scores


class Recurrent(nn.Module):
    """A cell by hand that joins each step with a state, which starts with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Linear(1, 8), nn.Linear(16, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(self.head.weight[:1]).expand(len(x), -1)
        for step in self.embed(x[..., None]).unbind(1):
            state = torch.tanh(self.cell(torch.cat([step, state], 1)))
        scores: Tensor = self.head(state)
        return scores


class OptionalCondition(nn.Module):
    """A model whose condition may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(4, 8), nn.Linear(16, 3)

    def forward(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        hidden, other = self.embed(x), self.embed(-x)
        condition = torch.zeros_like(other) if condition is None else condition
        scores: Tensor = self.head(torch.cat([hidden, condition], 1)) + other[:, :3]
        return scores


def filled_later(model: TwoBranches, x: Tensor) -> Tensor:
    values = torch.zeros_like(model.second(x))
    values[x[:, 0] > 100] = 1.0
    return torch.cat([model.first(x), values], 1)


def noise_in_training(model: TwoBranches, x: Tensor) -> Tensor:
    hidden = model.second(x)
    return torch.cat([model.first(x), torch.randn_like(hidden) if model.training else torch.zeros_like(hidden)], 1)


def faults(model: nn.Module) -> list[Any]:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    setup = minimal_setup(model, x, (x[:, 0] > 0).long(), nn.CrossEntropyLoss())
    return [finding for finding in rule_findings(setup, "M306") if finding.severity != "note"]


FAULTY: dict[str, Callable[[], nn.Module]] = {
    "zeros second": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), torch.zeros_like(m.second(x))], 1)),
    "zeros first": lambda: TwoBranches(lambda m, x: torch.cat((torch.zeros_like(m.first(x)), m.second(x)), dim=-1)),
    "ones": lambda: TwoBranches(lambda m, x: torch.concat([m.first(x), torch.ones_like(m.second(x))], 1)),
    "a number": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), torch.full_like(m.second(x), 0.5)], 1)),
    "axis by its other name": lambda: TwoBranches(
        lambda m, x: torch.cat([m.first(x), torch.zeros_like(m.second(x))], axis=1)  # type: ignore[call-overload]
    ),
    "channels": lambda: Convolutions(has_zeros=True),
}
HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "both branches": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), m.second(x)], 1)),
    "a gate that starts at zero": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), m.gate * m.second(x)], 1)),
    "a buffer": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), m.memory.expand(len(x), -1)], 1)),
    "a prompt": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), m.prompt.expand(len(x), -1)], 1)),
    "zeros of another width": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), torch.zeros(len(x), 8)], 1)),
    "more columns by zeros": lambda: TwoBranches(lambda m, x: torch.cat([m.first(x), torch.zeros_like(m.first(x))], 1)),
    "values set later": lambda: TwoBranches(filled_later),
    "noise in training": lambda: TwoBranches(noise_in_training),
    "channels": lambda: Convolutions(has_zeros=False),
    "rows": lambda: Convolutions(has_zeros=True, axis=2),
    "first state": Recurrent,
    "optional condition": OptionalCondition,
}


@pytest.mark.parametrize("build", FAULTY.values(), ids=list(FAULTY))
def test_zeros_in_the_place_of_values_fire_at_their_line(build: Callable[[], nn.Module]) -> None:
    (finding,) = faults(build())
    assert finding.severity == "warning"
    assert "input columns of" in finding.message
    assert finding.where.file == __file__


@pytest.mark.parametrize("build", HEALTHY.values(), ids=list(HEALTHY))
def test_constants_on_purpose_are_quiet(build: Callable[[], nn.Module]) -> None:
    assert faults(build()) == []
