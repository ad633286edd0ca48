"""L207: heads far larger than the labels need, and heads that are large for a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup


def build(outputs: int, labels: Tensor, loss_fn: Callable[..., Tensor] = F.cross_entropy, *tail: nn.Module) -> Setup:
    """A head of some outputs for labels in a mixed order, and points that tell nothing of them."""
    generator = torch.Generator().manual_seed(0)
    mixed = labels[torch.randperm(len(labels), generator=generator)]
    return minimal_setup(network(outputs, *tail), torch.randn(len(labels), 4, generator=generator), mixed, loss_fn)


NUMBERS = torch.arange(600)
FAULTY = {
    "cross-entropy": lambda: build(12, NUMBERS % 3),
    "nll": lambda: build(12, NUMBERS % 3, nn.NLLLoss(), nn.LogSoftmax(1)),
    "every fifth class": lambda: build(20, NUMBERS % 4 * 5, nn.CrossEntropyLoss()),
    "smoothed": lambda: build(10, NUMBERS % 2, nn.CrossEntropyLoss(label_smoothing=0.1)),
}
HEALTHY = {
    "as many": lambda: build(3, NUMBERS % 3),
    "one class rare": lambda: build(10, torch.cat([NUMBERS % 9, torch.full((2,), 9)])),
    "few labels yet": lambda: build(100, NUMBERS[:64] % 10),
    "half of the classes": lambda: build(10, NUMBERS % 5),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_head_left_from_another_task_is_found(name: str) -> None:
    report = Debugger.of(FAULTY[name]()).checkup()
    assert report[0].code == "L207"


@pytest.mark.parametrize("name", HEALTHY)
def test_a_head_that_is_large_for_a_reason_is_left_alone(name: str) -> None:
    report = Debugger.of(HEALTHY[name]()).checkup(select="L207")
    assert len(report.faults) == 0
