"""Tests of M304: inputs of which all samples read the row of one sample."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
VALUES = torch.randn(64, 6, generator=GENERATOR)
CONDITIONS = torch.randn(64, 4, generator=GENERATOR)
SERIES = torch.randn(64, 5, 4, generator=GENERATOR)
TIMES = torch.randint(0, 50, (64,), generator=GENERATOR)

LENGTHS = torch.arange(64, 0, -1.0)[:, None]  # sorted: the first one is the largest of each batch
FLAGS = torch.arange(64).remainder(2)[:, None].float()

_Combination = Callable[[Tensor, Tensor], Tensor]


class Conditioned(nn.Module):
    """A linear layer on values and on what a function makes of them and a second input."""

    def __init__(self, combine: _Combination, width: int) -> None:
        super().__init__()
        self.combine, self.encode, self.head = combine, nn.Linear(4, 4), nn.Linear(width, 3)

    def forward(self, values: Tensor, condition: Tensor) -> Tensor:
        condition = self.encode(condition) if condition.shape[-1] == 4 else condition
        return self.head(self.combine(values, condition))


def conditioned_setup(combine: _Combination, condition: Tensor, width: int) -> Setup:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(VALUES, condition, torch.randn(64, 3)), 16)
    return Setup(Conditioned(combine, width), loader, loss_fn=nn.MSELoss())


def joined(values: Tensor, condition: Tensor) -> Tensor:
    return torch.cat([values, condition.expand(len(values), -1)], 1)


# By name: what is made of both inputs, the second input, and the number of features.
FAULTS: dict[str, tuple[_Combination, Tensor, int]] = {
    "expanded row": (lambda v, c: joined(v, c[:1]), CONDITIONS, 10),
    "row of all": (lambda v, c: v * (1 + c[0].sum()), CONDITIONS, 6),
    "broadcast sum": (lambda v, c: v + c.narrow(0, 0, 1).mean(1, keepdim=True), CONDITIONS, 6),
    "first series": (lambda v, c: joined(v, c[0].mean(0, keepdim=True)), SERIES, 10),
    "time of the first sample": (lambda v, t: v * torch.cos(0.1 * t[0]), TIMES, 6),
    "first of sorted lengths": (lambda v, n: v / n[0], LENGTHS, 6),
    "flag of the first sample": (lambda v, n: v * (1 + n[:1]), FLAGS, 6),
    "whole number of the first sample": (lambda v, n: v * torch.cos(0.1 * n[0]), TIMES[:, None], 6),
    "index of the first sample": (lambda v, c: joined(v, c.index_select(0, torch.zeros(1).long())), CONDITIONS, 10),
}

HEALTHY: dict[str, tuple[_Combination, Tensor, int]] = {
    "own rows": (joined, CONDITIONS, 10),
    "one row for the whole batch": (lambda v, c: joined(v, c[:1]), CONDITIONS[:1].repeat(64, 1), 10),
    "differences from the first sample": (lambda v, c: joined(v, c - c[:1]), CONDITIONS, 10),
    "mean of the batch": (lambda v, c: joined(v, c.mean(0, keepdim=True)), CONDITIONS, 10),
    "largest of the batch": (lambda v, c: joined(v, c.amax(0, keepdim=True)), CONDITIONS, 10),
    "longest of sorted lengths": (lambda v, n: v / n.max(), LENGTHS, 6),
    "longest of sorted whole lengths": (lambda v, n: v / n.amax(0), LENGTHS.long(), 6),
    "shortest of sorted lengths": (lambda v, n: v / n.min(0, keepdim=True).values, LENGTHS.flip(0), 6),
    "last of sorted times": (lambda v, n: v / n.cummax(0).values[-1], LENGTHS, 6),
    "largest of a decreasing series": (lambda v, n: v / n.flatten(1).amax(), LENGTHS.repeat(1, 3), 6),
    "any flag": (lambda v, n: v * (1 + n.bool().any(0)), FLAGS, 6),
    "second input unread": (lambda v, c: v, CONDITIONS, 6),
    "attention over the conditions": (lambda v, c: joined(v, torch.softmax(c @ c.T, 1) @ c), CONDITIONS, 10),
}


@pytest.mark.parametrize("name", FAULTS)
def test_m304_an_input_of_one_sample_for_all_is_an_error(name: str) -> None:
    (finding,) = rule_findings(conditioned_setup(*FAULTS[name]), "M304")
    assert finding.severity == "error"
    assert "All outputs depend on row 0 of 'condition'" in finding.message


@pytest.mark.parametrize("name", HEALTHY)
def test_m304_inputs_of_which_all_rows_or_equal_rows_are_read_are_no_fault(name: str) -> None:
    assert [f for f in rule_findings(conditioned_setup(*HEALTHY[name]), "M304") if f.severity != "note"] == []
