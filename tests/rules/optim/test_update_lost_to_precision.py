"""O517: steps that rounding swallows, and small steps that it does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

X, Y = points()
ADAM, ADAMW, SGD = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD


def of(kind: torch.dtype, optimizer: type[torch.optim.Optimizer], **settings: Any) -> Setup:
    model = network(3).to(kind)
    made = optimizer(model.parameters(), **settings)
    return program(model, X.to(kind), Y, lambda o, t: nn.functional.cross_entropy(o.float(), t), optimizers=(made,))


def found(setup: Setup) -> list[Finding]:
    return [one for one in Debugger.of(setup).checkup(select=["O517"]) if one.code == "O517"]


@pytest.mark.parametrize(
    "setup",
    [
        of(torch.bfloat16, ADAM, lr=1e-4),
        of(torch.bfloat16, ADAMW, lr=1e-4, weight_decay=0.1),
        of(torch.bfloat16, SGD, lr=1e-3),
        of(torch.float16, ADAM, lr=1e-5, eps=1e-4),
        of(torch.float32, SGD, lr=1e-9),
    ],
    ids=["adam", "adamw", "sgd", "half", "single, tiny rate"],
)
def test_steps_that_are_rounded_away_are_found(setup: Setup) -> None:
    (one,) = found(setup)
    assert one.severity == "error"
    assert one.evidence["share of weights"] > 0.5


def test_steps_that_arrive_only_while_gradients_agree_are_a_warning() -> None:
    assert [one.severity for one in found(of(torch.bfloat16, ADAM, lr=1e-3))] == ["warning"]


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.inner(x).float()


def under_autocast() -> Setup:
    model = Autocast()
    return program(model, X, Y, nn.CrossEntropyLoss(), optimizers=(ADAM(model.parameters(), lr=1e-4),))


def warming_up() -> Setup:
    setup = of(torch.float32, ADAM, lr=1e-3)
    setup.scheduler = torch.optim.lr_scheduler.LambdaLR(setup.optimizers[0], lambda step: 1e-9 + step / 100)
    return setup


@pytest.mark.parametrize(
    "setup",
    [
        of(torch.float32, ADAM, lr=1e-5),
        of(torch.float32, SGD, lr=1e-4, momentum=0.9),
        of(torch.bfloat16, ADAM, lr=1e-2),
        of(torch.bfloat16, SGD, lr=0.5, momentum=0.9),
        under_autocast(),
        warming_up(),
    ],
    ids=["single", "single, sgd", "brain, large rate", "brain, sgd", "autocast", "warm-up"],
)
def test_steps_that_arrive_draw_nothing(setup: Setup) -> None:
    assert found(setup) == []


def test_an_unknown_optimizer_is_not_judged() -> None:
    report = Debugger.of(of(torch.bfloat16, torch.optim.Adagrad, lr=1e-4)).checkup(select=["O517"])
    assert [one.code for one in report.not_checked] == ["O517"]
