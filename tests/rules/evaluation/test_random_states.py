"""Tests of E701 on recurrent layers that start from random numbers in eval mode, and on other randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
Start = Callable[[Any, Tensor], Tensor]


class Sequence(nn.Module):
    """A classifier of sequences of four numbers, whose layer starts from what a function returns."""

    def __init__(self, start: Start, kind: Callable[..., nn.Module] = nn.GRU, outputs: int = 3) -> None:
        super().__init__()
        self.layer, self.head, self.start = kind(1, 8, batch_first=True), nn.Linear(8, outputs), start
        self.first, self.code = nn.Parameter(torch.zeros(1, 1, 8)), nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        state = self.start(self, x)
        states = (state, torch.zeros_like(state)) if isinstance(self.layer, nn.LSTM) else state
        scores: Tensor = self.head(self.layer(x.unsqueeze(2), states)[0][:, -1])
        return scores


class CellSequence(nn.Module):
    """A recurrent cell that runs over four numbers from random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(1, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.rand(len(x), 8)
        for step in range(4):
            state = self.cell(x[:, step, None], state)
        scores: Tensor = self.head(state)
        return scores


def random_numbers(_: nn.Module, x: Tensor) -> Tensor:
    return torch.randn(1, len(x), 8)


def scaled_numbers(_: nn.Module, x: Tensor) -> Tensor:
    numbers = torch.rand(len(x), 8, device=x.device)
    return (numbers * 0.2 - 0.1).unsqueeze(0).to(x)


def filled_in_place(_: nn.Module, x: Tensor) -> Tensor:
    return torch.empty(1, len(x), 8).normal_()


def zeros(_: nn.Module, x: Tensor) -> Tensor:
    return torch.zeros(1, len(x), 8)


def random_in_training(model: nn.Module, x: Tensor) -> Tensor:
    return torch.randn(1, len(x), 8) if model.training else zeros(model, x)


def learned(model: Any, x: Tensor) -> Tensor:
    first: Tensor = model.first
    return first.expand(1, len(x), 8).contiguous()


def sampled_code(model: Any, x: Tensor) -> Tensor:
    code: Tensor = model.code(x)
    return (code + 0.3 * torch.randn_like(code)).unsqueeze(0)


def zeros_like_random_numbers(_: nn.Module, x: Tensor) -> Tensor:
    return torch.zeros_like(torch.randn(1, len(x), 8))


def setup_of(model: nn.Module, y: Tensor = Y, loss: nn.Module | None = None) -> Setup:
    return minimal_setup(model, X, y, loss or nn.CrossEntropyLoss())


FAULTS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "GRU": (lambda: Sequence(random_numbers), "torch.randn(1, len(x), 8)"),
    "LSTM": (lambda: Sequence(random_numbers, nn.LSTM), "torch.randn(1, len(x), 8)"),
    "RNN": (lambda: Sequence(scaled_numbers, nn.RNN), "torch.rand(len(x), 8, device"),
    "numbers drawn in place": (lambda: Sequence(filled_in_place), "normal_()"),
    "cell": (CellSequence, "torch.rand(len(x), 8)"),
}
HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "zeros": lambda: Sequence(zeros),
    "random in training": lambda: Sequence(random_in_training),
    "learned": lambda: Sequence(learned),
    "sampled code": lambda: Sequence(sampled_code),
    "shape of random numbers": lambda: Sequence(zeros_like_random_numbers),
}


def faults(setup: Setup) -> list[Finding]:
    return [finding for finding in rule_findings(setup, "E701") if finding.severity != "note"]


@pytest.mark.parametrize("name", FAULTS)
def test_recurrent_layer_that_starts_from_random_numbers_is_reported_at_the_draw(name: str) -> None:
    build, source = FAULTS[name]
    (finding,) = faults(setup_of(build()))
    assert finding.severity == "warning"
    assert source in (finding.where.source or "")


def test_random_state_becomes_zeros() -> None:
    (finding,) = faults(setup_of(Sequence(random_numbers)))
    assert [edit.text for edit in finding.edits] == ["torch.zeros"]


@pytest.mark.parametrize("name", HEALTHY)
def test_other_states_are_no_fault(name: str) -> None:
    assert faults(setup_of(HEALTHY[name]())) == []


def test_generator_of_sequences_from_noise_is_a_note() -> None:
    def distance(scores: Tensor, _: Tensor) -> Tensor:
        return scores.mean().square()

    setup = minimal_setup(Sequence(random_numbers, outputs=4), X, X, distance)
    assert faults(setup) == []
