"""Tests of L212: losses without a path to a parameter, and frozen parts that a loop leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, network, points
from tests.rules.rule_findings import rule_findings

X, Y = points()


class Student(nn.Module):
    """A student in train mode, and its frozen teacher in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = network(3), network(3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.student(x) if self.training else self.teacher(x)


class Adversaries(nn.Module):
    """A generator, and a classifier that the forward pass runs."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.judge = nn.Linear(2, 4), network(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.judge(x)


def leave_in_eval_mode(model: Any) -> None:
    model.eval()


def leave_judge_frozen(model: Any) -> None:
    model.judge.requires_grad_(False)


@pytest.mark.parametrize(
    ("make_model", "leave"),
    [(Student, leave_in_eval_mode), (Adversaries, leave_judge_frozen)],
    ids=["teacher", "judge"],
)
@pytest.mark.parametrize("has_loop", [True, False], ids=["after a loop", "checkup"])
def test_loss_detached_when_only_frozen_part_runs_is_quiet(
    make_model: Callable[[], nn.Module], leave: Callable[[Any], None], has_loop: bool
) -> None:
    model, loader = make_model(), DataLoader(TensorDataset(X, Y), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=F.cross_entropy, optimizer=optimizer)
    if has_loop:
        with debugger.watch():
            for inputs, target in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(inputs), target).backward()
                optimizer.step()
            leave(model)
    else:
        leave(model)
        debugger.checkup(select="L212")
    assert "L212" not in {finding.code for finding in debugger.findings}


def loss_of_numbers(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(torch.tensor(output.tolist()), target)


def loss_without_gradients(output: Tensor, target: Tensor) -> Tensor:
    with torch.no_grad():
        return F.cross_entropy(output, target)


@pytest.mark.parametrize("loss_fn", [loss_of_numbers, loss_without_gradients, lambda o, t: F.cross_entropy(o.data, t)])
def test_loss_detached_from_output_is_reported(loss_fn: Callable[..., Tensor]) -> None:
    assert [finding.severity for finding in rule_findings(classifier(loss_fn=loss_fn), "L212")] == ["error"]


def test_loss_detached_in_setup_is_withdrawn_when_loop_reaches_model() -> None:
    model, loader = network(3), DataLoader(TensorDataset(X, Y), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=loss_without_gradients, optimizer=optimizer)
    debugger.checkup(select="L212")
    assert [finding.code for finding in debugger.findings] == ["L212"]
    with debugger.watch():
        for inputs, target in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), target).backward()
            optimizer.step()
    assert "L212" not in {finding.code for finding in debugger.findings}
