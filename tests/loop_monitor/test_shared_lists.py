"""Tests of E710 on evaluations that collect predictions and targets in one list with two names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points

X, Y = points()
LOADER = DataLoader(TensorDataset(X, Y), 16)
Add = Callable[[Tensor, Tensor], None]


class Meter:
    """Collects predictions and targets; ``queue`` and ``waiting`` are one list on purpose."""

    def __init__(self, is_shared: bool) -> None:
        self.queue = self.waiting = ["validation"]
        if is_shared:
            self.predicted: list[Any] = []
            self.targets = self.predicted
        else:
            self.predicted, self.targets = [], []

    def add(self, predicted: Tensor, target: Tensor) -> None:
        self.predicted.extend(predicted.tolist())
        self.targets.extend(target.tolist())


def evaluate_with_meter(predict: Callable[[Tensor], Tensor], is_shared: bool) -> None:
    meter = Meter(is_shared)
    for x, y in LOADER:
        meter.add(predict(x), y)


def evaluate_with_variables(predict: Callable[[Tensor], Tensor], is_shared: bool) -> None:
    if is_shared:
        predicted = targets = []
    else:
        predicted, targets = [], []
    for x, y in LOADER:
        predicted += predict(x).tolist()
        targets += y.tolist()


def evaluate_with_entries(predict: Callable[[Tensor], Tensor], is_shared: bool) -> None:
    columns = dict.fromkeys(("predicted", "target"), []) if is_shared else {"predicted": [], "target": []}  # noqa: RUF024
    for x, y in LOADER:
        columns["predicted"].append(predict(x))
        columns["target"].append(y)


def findings_of(evaluate: Callable[[Callable[[Tensor], Tensor], bool], None], is_shared: bool) -> list[Finding]:
    torch.manual_seed(0)
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dbg = Debugger(model, DataLoader(TensorDataset(X, Y), 16, shuffle=True), LOADER, optimizer=optimizer)
    with dbg.watch():
        for x, y in dbg.train_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            evaluate(lambda x: model(x).argmax(1), is_shared)
    return [finding for finding in dbg.findings if finding.code == "E710"]


@pytest.mark.parametrize(
    ("evaluate", "names"),
    [
        (evaluate_with_meter, ["meter.predicted", "meter.targets"]),
        (evaluate_with_variables, ["predicted", "targets"]),
        (evaluate_with_entries, ["columns['predicted']", "columns['target']"]),
    ],
)
def test_list_with_two_names_is_an_error_where_it_gets_them(
    evaluate: Callable[[Callable[[Tensor], Tensor], bool], None], names: list[str]
) -> None:
    (finding,) = findings_of(evaluate, is_shared=True)
    assert finding.severity == "error"
    assert finding.evidence["names"] == names
    assert "predicted" in str(finding.where.source)


@pytest.mark.parametrize("evaluate", [evaluate_with_meter, evaluate_with_variables, evaluate_with_entries])
def test_two_lists_are_quiet(evaluate: Callable[[Callable[[Tensor], Tensor], bool], None]) -> None:
    assert findings_of(evaluate, is_shared=False) == []
