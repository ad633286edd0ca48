"""Tests of D105 on labels that lag behind the inputs, after rows were removed from one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_iris
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(500, 4, generator=GENERATOR) * 1.5
Y = (X @ torch.randn(4, 3, generator=GENERATOR)).argmax(1)
PARITY = ((X > 0).sum(1) % 2).long()
IS_COMPLETE = torch.rand(500, generator=GENERATOR) > 0.06
IS_COMPLETE[0] = False
COUNT = int(IS_COMPLETE.sum())


class Table(Dataset[Any]):
    """Rows and labels that one index reads from two attributes."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.rows, self.labels = x, y
        self.drop()

    def drop(self) -> None:
        self.rows = self.rows[IS_COMPLETE]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.rows[index], self.labels[index]


class CompleteTable(Table):
    """Drops the same rows of both."""

    def drop(self) -> None:
        self.rows, self.labels = self.rows[IS_COMPLETE], self.labels[IS_COMPLETE]


class TableWithMoreLabels(Table):
    """Has the labels of all rows, of which it uses the first."""

    def drop(self) -> None:
        self.rows = self.rows[:400]


def setup_of(data: Any) -> Setup:
    return Setup(network(3), DataLoader(data, 32, shuffle=True), loss_fn=nn.CrossEntropyLoss())


def flowers_as_pairs() -> list[Any]:
    x, y = (torch.as_tensor(part) for part in load_iris(return_X_y=True))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1))
    complete = [row.float() for i, row in enumerate(x[order]) if i % 15]
    return list(zip(complete, y[order].tolist(), strict=False))


def split(data: Any) -> Any:
    return random_split(data, [0.8, 0.2], generator=torch.Generator().manual_seed(0))[0]


def in_random_order(labels: Tensor) -> Tensor:
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(2))]


SEPARATED: dict[str, Callable[[], Setup]] = {
    "rows of tensors": lambda: setup_of(TensorDataset(X[IS_COMPLETE], Y[:COUNT])),
    "labels of tensors": lambda: setup_of(TensorDataset(X[:COUNT], Y[IS_COMPLETE])),
    "pairs in a list": lambda: setup_of(flowers_as_pairs()),
    "random split": lambda: setup_of(split(TensorDataset(X[IS_COMPLETE], Y[:COUNT]))),
    "shifted by seven": lambda: setup_of(TensorDataset(X[7:], Y[:-7])),
}
TOGETHER: dict[str, Callable[[], Setup]] = {
    "both": lambda: setup_of(TensorDataset(X[IS_COMPLETE], Y[IS_COMPLETE])),
    "random labels": lambda: setup_of(TensorDataset(X, in_random_order(Y))),
    "random binary labels": lambda: setup_of(TensorDataset(X, in_random_order((Y == 0).long()))),
    "not learnable": lambda: setup_of(TensorDataset(X, PARITY)),
    "class, both": lambda: setup_of(CompleteTable(X, PARITY)),
    "class with more labels": lambda: setup_of(TableWithMoreLabels(X, Y)),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_labels_unrelated_finds_labels_of_other_rows_at_a_growing_distance(name: str) -> None:
    (finding,) = rule_faults(SEPARATED[name](), "D105")
    assert finding.severity == "error"
    assert "belong to other rows" in finding.message


@pytest.mark.parametrize(("labels", "severity"), [(Y, "error"), (PARITY, "warning")], ids=["learnable", "parity"])
def test_labels_unrelated_of_attributes_of_different_lengths_names_the_assignment(
    labels: Tensor, severity: str
) -> None:
    (finding,) = rule_faults(setup_of(Subset(Table(X, labels), range(400))), "D105")
    assert finding.severity == severity
    assert finding.where.source == "        self.rows = self.rows[IS_COMPLETE]"


def test_labels_unrelated_of_a_constant_distance_states_it() -> None:
    (finding,) = rule_faults(SEPARATED["shifted by seven"](), "D105")
    assert "With labels from 7 rows further down" in finding.message
    assert "x, y = x[:-7], y[7:]" in finding.fix


@pytest.mark.parametrize("name", TOGETHER)
def test_labels_unrelated_of_rows_removed_from_both_or_of_unlearnable_labels_is_quiet(name: str) -> None:
    assert rule_faults(TOGETHER[name](), "D105") == []
