"""Tests that the state of a loss which is a plain object is restored, and which callables are left out."""

from __future__ import annotations

import functools
import io
from collections import deque
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.setup.callable_state import stateful_callable


class RunningLoss:
    """A loss that keeps a running level, a history and a tensor."""

    def __init__(self, **more: Any) -> None:
        self.level, self.history, self.total = 1.0, deque[float](maxlen=5), torch.zeros(())
        self.options = {"scale": [1.0, 2.0]}
        vars(self).update(more)

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        error = nn.functional.mse_loss(output, target)
        self.level = 0.9 * self.level + 0.1 * float(error.detach())
        self.history.append(self.level)
        self.total += 1
        self.options["scale"].append(self.level)
        return error / self.level

    def state(self) -> tuple[Any, ...]:
        """Everything that a call changes, as plain values."""
        return self.level, list(self.history), float(self.total), list(self.options["scale"])


@pytest.mark.parametrize("tool", ["checkup", "overfit", "profile", "repeatable"])
def test_tools_leave_the_state_of_a_loss_object_as_it_was(tool: str) -> None:
    with nbdebug.seed(0):
        model, x, loss = nn.Linear(4, 1), torch.randn(48, 4), RunningLoss()
        loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        debugger = nbdebug.Debugger(model, loader, loss_fn=loss, optimizer=optimizer)
        loss(model(x), x[:, :1])
        before = loss.state()
        options = {"profile": {"steps": 4}, "repeatable": {"steps": 3}}.get(tool, {})
        getattr(debugger, tool)(**options)
    assert loss.state() == before


@pytest.mark.parametrize(
    "item",
    [
        None,
        nn.functional.mse_loss,
        functools.partial(nn.functional.mse_loss, reduction="sum"),
        RunningLoss,
        RunningLoss().__call__,
        torch.relu,
        RunningLoss(file=io.StringIO()),
        RunningLoss(values=list(range(20_000))),
    ],
)
def test_functions_and_objects_that_refer_to_more_are_left_out(item: Any) -> None:
    assert stateful_callable(item) is None


@pytest.mark.parametrize("item", [nn.MSELoss(), RunningLoss(), RunningLoss(teacher=nn.Linear(1, 1))])
def test_modules_and_objects_with_plain_attributes_have_state(item: Any) -> None:
    assert stateful_callable(item) is item
