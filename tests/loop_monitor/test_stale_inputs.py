"""Tests of E710 on evaluations that call the model with a variable of the training loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points

X, Y = points()
TRAIN, VAL = DataLoader(TensorDataset(X, Y), 16, shuffle=True), DataLoader(TensorDataset(X.flip(0), Y.flip(0)), 16)
Evaluate = Callable[[Callable[[Tensor], Tensor], Tensor], None]


def with_left_over_input(predict: Callable[[Tensor], Tensor], x: Tensor) -> None:
    for _, target in VAL:
        predict(x).argmax(1) == target  # noqa: B015


def with_its_own_input(predict: Callable[[Tensor], Tensor], x: Tensor) -> None:
    for inputs, target in VAL:
        predict(inputs).argmax(1) == target  # noqa: B015


def with_scaled_input(predict: Callable[[Tensor], Tensor], x: Tensor) -> None:
    for inputs, target in VAL:
        predict(2 * inputs).argmax(1) == target  # noqa: B015


def with_both(predict: Callable[[Tensor], Tensor], x: Tensor) -> None:
    for inputs, _ in VAL:
        predict(x)
        predict(inputs)


def with_repeated_passes(predict: Callable[[Tensor], Tensor], x: Tensor) -> None:
    inputs = 2 * next(iter(VAL))[0]
    for _ in range(4):
        predict(inputs)


def with_left_over_input_in_a_sum(predict: Callable[[Tensor], Tensor], x: Tensor) -> None:
    right = 0.0
    for _, target in VAL:
        right += (predict(x).argmax(1) == target).sum().item()


def findings_of(evaluate: Evaluate) -> list[Finding]:
    torch.manual_seed(0)
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dbg = Debugger(model, TRAIN, VAL, loss_fn=torch.nn.CrossEntropyLoss(), optimizer=optimizer)
    with dbg.watch():
        for _ in range(3):
            for x, y in TRAIN:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                evaluate(model, x)
    return [finding for finding in dbg.findings if finding.code == "E710"]


@pytest.mark.parametrize("evaluate", [with_left_over_input, with_left_over_input_in_a_sum])
def test_input_of_the_training_loop_is_one_error_at_the_call_of_the_model(evaluate: Evaluate) -> None:
    (finding,) = findings_of(evaluate)
    assert finding.severity == "error"
    assert finding.evidence["passes"] == 9
    assert "predict(x).argmax(1) == target" in str(finding.where.source)


@pytest.mark.parametrize("evaluate", [with_its_own_input, with_scaled_input, with_both, with_repeated_passes])
def test_inputs_of_their_own_are_quiet(evaluate: Evaluate) -> None:
    assert findings_of(evaluate) == []
