"""What one rule says of a set-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup


def said(code: str, setup: Setup) -> list[Finding]:
    """The findings of one rule in a checkup in which no rule of its family broke."""
    torch.manual_seed(0)
    report = Debugger.of(setup).checkup()
    assert [one for one in report.not_checked if one.code == code and "broke" in one.why] == []
    return [one for one in report if one.code == code]


def on(model: nn.Module, x: Tensor | None = None, y: Tensor | None = None, loss_fn: Any = None) -> Callable[[], Setup]:
    """What builds the set-up of a model: on points of three classes with cross-entropy, unless others are given."""
    points_x, points_y = points()
    data = points_x if x is None else x, points_y if y is None else y
    return lambda: minimal_setup(model, *data, loss_fn or nn.CrossEntropyLoss())
