"""G406 names the operation that makes a gradient NaN or Inf while the loss is finite."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from tests.rules.rule_findings import checkup_findings, setup_builder


class Through(nn.Module):
    """A network with an operation of some kind in its middle."""

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.act = nn.Linear(4, 8), nn.Linear(8, 3), act

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.body(x)))


def differences(h: Tensor) -> Tensor:
    return h - h[:, :1]


def rooted(h: Tensor) -> Tensor:
    return torch.sqrt(differences(h).square())


def powered(h: Tensor) -> Tensor:
    return differences(h).square() ** 0.25


def angles(h: Tensor) -> Tensor:
    unit = h / h.norm(dim=1, keepdim=True)
    return torch.acos((differences(unit) * 0 + 1).clamp(-1, 1)) + unit


def behind_where(h: Tensor) -> Tensor:
    apart = differences(h).square()
    root = apart.sqrt()
    return torch.where(apart > 0, root, torch.zeros_like(root))


FAULTS = {
    "root of zero": (rooted, "torch.sqrt("),
    "power below one": (powered, "** 0.25"),
    "inverse cosine of one": (angles, "torch.acos("),
    "root behind a where": (behind_where, "apart.sqrt()"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_operation_is_named_at_its_line_and_comes_first(name: str) -> None:
    act, line = FAULTS[name]
    report = Debugger.of(setup_builder(Through(act))()).checkup()
    assert [one.code for one in report.faults] == ["G406"]
    assert line in (report[0].where.source or "")


HEALTHY: dict[str, Callable[[Tensor], Tensor]] = {
    "root of what is never zero": lambda h: torch.sqrt(differences(h).square() + 1e-6),
    "norm": lambda h: h.relu().norm(dim=1, keepdim=True) * h,
    "root of units at rest": lambda h: torch.sqrt(h.relu() + 1e-6),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_finite_gradients_draw_nothing(name: str) -> None:
    assert checkup_findings(setup_builder(Through(HEALTHY[name]))(), "G406") == []
