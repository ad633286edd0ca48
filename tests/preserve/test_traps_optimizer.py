"""Optimizers, schedules, scalers and averages, which other tools forget or replace."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    ExponentialLR,
    LambdaLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)
from torch.optim.swa_utils import AveragedModel

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint
from tests.programs import PROGRAMS, Program, train


def test_r7_the_optimizer_keeps_its_very_dicts(program: Program) -> None:
    group, state = program.optimizer.param_groups[0], program.optimizer.state
    before = fingerprint(program.model, program.optimizer)
    with Preserve(program.model, program.optimizer):
        program.optimizer.load_state_dict(copy.deepcopy(program.optimizer.state_dict()))
        torch.optim.lr_scheduler.OneCycleLR(program.optimizer, 1.0, 10)
        program.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
        assert program.optimizer.param_groups[0] is not group
    assert program.optimizer.param_groups[0] is group
    assert program.optimizer.state is state
    assert "initial_lr" not in group
    assert "step" not in vars(program.optimizer)
    before.check()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.LBFGS, torch.optim.RMSprop, torch.optim.Adagrad])
def test_r7_state_made_inside_is_gone(kind: Any) -> None:
    program = PROGRAMS["mlp"]()
    program = program._replace(optimizer=kind(program.model.parameters()))
    before = fingerprint(program.model, program.optimizer)
    states = len(program.optimizer.state)
    with Preserve(program.model, program.optimizer):
        train(program, program.loader(), 2)
    assert len(program.optimizer.state) == states
    before.check()


def test_r7_a_rate_that_is_a_tensor_keeps_its_value() -> None:
    weight, rate = nn.Parameter(torch.ones(1)), torch.tensor(0.1)
    optimizer = torch.optim.Adam([weight], lr=rate, foreach=False)
    with Preserve(optimizer):
        rate.mul_(10)
        optimizer.param_groups[0]["lr"] = 3.0
        weight.data.zero_()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.1)
    assert weight.item() == 1


def test_r7_several_optimizers_on_one_model() -> None:
    program = PROGRAMS["mlp"]()
    other = torch.optim.SGD(program.model[2].parameters(), lr=1.0, momentum=0.9)
    train(program, program.loader(), 1)
    before = fingerprint(program.model, program.optimizer, other)
    with Preserve(program.model, program.optimizer, other):
        train(program, program.loader(), 1)
        other.step()
    before.check()


SCHEDULERS = {
    "lambda": lambda o: LambdaLR(o, lambda epoch: 0.9**epoch),
    "one cycle": lambda o: OneCycleLR(o, 0.1, total_steps=20),
    "plateau": lambda o: ReduceLROnPlateau(o, patience=0),
    "sequence": lambda o: SequentialLR(o, [ExponentialLR(o, 0.9), ExponentialLR(o, 0.5)], [2]),
    "chain": lambda o: ChainedScheduler([ExponentialLR(o, 0.9), ExponentialLR(o, 0.5)]),
}


@pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_r8_the_schedule_does_not_advance(name: str) -> None:
    program = PROGRAMS["batch_norm"]()
    scheduler = SCHEDULERS[name](program.optimizer)
    before = fingerprint(program.model, program.optimizer, scheduler)
    with Preserve(program.model, program.optimizer, scheduler):
        train(program, program.loader(), 1)
        for loss in (1.0, 2.0, 3.0, 4.0):
            scheduler.step(loss) if name == "plateau" else scheduler.step()
    before.check()


class Accumulator:
    """What a hand-written loop keeps."""

    def __init__(self) -> None:
        self.micro_step, self.losses, self.best = 0, [0.5], {"loss": torch.tensor(1.0)}


def test_r9_scaler_averages_and_counters_come_back(program: Program) -> None:
    scaler, average, loop = torch.amp.GradScaler("cpu", init_scale=8.0), AveragedModel(program.model), Accumulator()
    owned = (program.model, program.optimizer, scaler, average, loop)
    before = fingerprint(*owned)
    with Preserve(*owned):
        for _ in range(3):
            scaler.scale(program.model(torch.full((2, 5), torch.inf)).sum()).backward()
            scaler.step(program.optimizer)
            scaler.update()
        average.update_parameters(program.model)
        loop.micro_step += 1
        loop.losses.append(0.1)
        loop.best["loss"].zero_()
        assert scaler.get_scale() < 8
    before.check()
    assert scaler.get_scale() == 8
