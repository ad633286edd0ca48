"""Tests of M301 and G416 on operations in the middle of a model that pass no gradient on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, points
from tests.rules.rule_findings import checkup_findings

TABLE = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))


def rounded(x: Tensor) -> Tensor:
    scaled = 10 * x
    return torch.round(scaled) / 10


def floored(x: Tensor) -> Tensor:
    return x.floor().abs()


def signs(x: Tensor) -> Tensor:
    return torch.sign(x)


def nearest(x: Tensor) -> Tensor:
    winner = x.argmax(1)
    return F.one_hot(winner, 8).float()


def flags(x: Tensor) -> Tensor:
    ones, zeros = torch.ones_like(x), torch.zeros_like(x)
    is_high = x > 0
    return torch.where(is_high, ones, zeros)


def largest(x: Tensor) -> Tensor:
    chosen = x.topk(2, dim=1).indices
    return TABLE[chosen].sum(1)


def ranks(x: Tensor) -> Tensor:
    _, order = x.sort(dim=1)
    return order.float()


def straight_through(x: Tensor) -> Tensor:
    return x + (x.round() - x).detach()


def fraction(x: Tensor) -> Tensor:
    return x - x.floor()


def gated(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, torch.zeros_like(x))


def scaled_by_sign(x: Tensor) -> Tensor:
    return torch.sign(x) * x


def largest_values(x: Tensor) -> Tensor:
    values, places = x.topk(2, dim=1)
    return torch.zeros_like(x).scatter(1, places, values)


def sorted_values(x: Tensor) -> Tensor:
    return x.sort(dim=1).values


class Between(nn.Module):
    """A function of a hidden layer before the head."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.function, self.head = nn.Linear(4, 8), function, nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.function(self.body(x)))


# The function, the rule that reports it, and what its line has.
CUTS: list[tuple[Callable[[Tensor], Tensor], str, str]] = [
    (rounded, "G416", "torch.round(scaled)"),
    (floored, "G416", "x.floor()"),
    (signs, "G416", "torch.sign(x)"),
    (nearest, "M301", "x.argmax(1)"),
    (flags, "M301", "is_high = x > 0"),
    (largest, "M301", "x.topk(2, dim=1)"),
    (ranks, "M301", "x.sort(dim=1)"),
]


@pytest.mark.parametrize(("function", "code", "line"), CUTS)
def test_operation_that_passes_no_gradient_is_reported_at_its_line(
    function: Callable[[Tensor], Tensor], code: str, line: str
) -> None:
    torch.manual_seed(0)
    (finding,) = checkup_findings(minimal_setup(Between(function), *points(), nn.CrossEntropyLoss()), code)
    assert finding.severity == "error"
    assert line in (finding.where.source or "")


@pytest.mark.parametrize("function", [straight_through, fraction, gated, scaled_by_sign, largest_values, sorted_values])
def test_operation_beside_which_a_gradient_passes_is_quiet(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    setup = minimal_setup(Between(function), *points(), nn.CrossEntropyLoss())
    assert [*checkup_findings(setup, "M301"), *checkup_findings(setup, "G416")] == []
