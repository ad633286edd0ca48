"""Tests of D108 on datasets that return samples of each other, since both keep them in one container."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from nbdebug.finding import Finding
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
STORE: dict[int, Any] = {}  # variable
KEYED: dict[Any, Any] = {}
Part = tuple[Tensor, Tensor]


class Rows(Dataset[Any]):
    """Rows of a table, and how one of them is read."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Part:
        return self.x[index] * 2, self.y[index]


class DefaultDict(Rows):
    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        *,
        store: dict[int, Part] = OrderedDict(),  # noqa: B006  # default
    ) -> None:
        super().__init__(x, y)
        self.store = store

    def __getitem__(self, index: int) -> Part:
        if index not in self.store:
            self.store[index] = super().__getitem__(index)
        return self.store[index]


class ClassDict(Rows):
    inputs: dict[int, Tensor] = {}  # noqa: RUF012  # class
    labels: dict[int, Tensor] = {}  # noqa: RUF012

    def __getitem__(self, index: int) -> Part:
        try:
            return self.inputs[index], self.labels[index]
        except KeyError:
            self.inputs[index], self.labels[index] = super().__getitem__(index)
            return self[index]


def stored(data: Rows, index: int) -> Part:
    if index not in STORE:
        STORE[index] = Rows.__getitem__(data, index)
    return STORE[index]


class ModuleDict(Rows):
    def __getitem__(self, index: int) -> Part:
        return stored(self, index)


def remember(read: Callable[[Any, int], Part]) -> Callable[[Any, int], Part]:
    results: dict[int, Part] = {}  # closure

    @functools.wraps(read)
    def wrapper(data: Any, index: int) -> Part:
        return results[index] if index in results else results.setdefault(index, read(data, index))

    return wrapper


class ClosureDict(Rows):
    @remember
    def __getitem__(self, index: int) -> Part:
        return super().__getitem__(index)


class DefaultList(Dataset[Any]):
    def __init__(self, x: Tensor, y: Tensor, rows: list[Part] = []) -> None:  # noqa: B006  # list
        rows += zip(x, y, strict=True)
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Part:
        return self.rows[index]


class KeyedByRow(Rows):
    def __getitem__(self, index: int) -> Part:
        key = tuple(self.x[index].tolist())
        if key not in KEYED:
            KEYED[key] = super().__getitem__(index)
        return KEYED[key]


def overlap_finding(train: Any, val: Any) -> Finding:
    setup = Setup(network(2), DataLoader(train, 16, shuffle=True), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())
    (finding,) = rule_faults(setup, "D108")
    return finding


@pytest.mark.parametrize(
    ("kind", "marker", "words"),
    [
        (DefaultDict, "# default", "default of the parameter store of __init__()"),
        (ClassDict, "# class", "class attribute ClassDict.inputs"),
        (ModuleDict, "# variable", "variable STORE"),
        (ClosureDict, "# closure", "variable results"),
        (DefaultList, "# list", "default of the parameter rows of __init__()"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: Subset(data, range(40))], ids=["plain", "subset"])
def test_split_overlap_names_the_container_of_both_datasets(
    kind: Callable[[Tensor, Tensor], Any], marker: str, words: str, wrap: Callable[[Any], Any]
) -> None:
    finding = overlap_finding(wrap(kind(X[:150], Y[:150])), wrap(kind(X[150:], Y[150:])))
    assert marker in str(finding.where.source)
    assert words in str(finding.cause)


def test_split_overlap_names_a_container_that_was_passed_to_both_datasets() -> None:
    store: dict[int, Part] = {}
    finding = overlap_finding(DefaultDict(X[:150], Y[:150], store=store), DefaultDict(X[150:], Y[150:], store=store))
    assert "same dict. It was passed to both of them." in str(finding.cause)


@pytest.mark.parametrize("kind", [KeyedByRow, Rows])
def test_split_overlap_does_not_blame_a_container_for_copies_in_the_data(kind: type[Rows]) -> None:
    finding = overlap_finding(kind(X, Y), kind(X[:50], Y[:50]))
    assert "the same dict" not in str(finding.cause)


def test_split_overlap_restores_the_containers() -> None:
    ClassDict.inputs.clear()
    ClassDict.labels.clear()
    train, val = ClassDict(X[:150], Y[:150]), ClassDict(X[150:], Y[150:])
    for index in (*range(149, -1, -1),):
        train[index]
    before = [[*store.items()] for store in (ClassDict.inputs, ClassDict.labels)]
    overlap_finding(train, val)
    after = [[*store.items()] for store in (ClassDict.inputs, ClassDict.labels)]
    for old, new in zip(before, after, strict=True):
        assert [key for key, _ in old] == [key for key, _ in new]
        assert all(first is second for (_, first), (_, second) in zip(old, new, strict=True))
