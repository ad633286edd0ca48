"""Tests of Preserve on optimizers, schedulers, gradient scalers and weight averages."""

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


def test_block_restores_identical_optimizer_dicts(program: Program) -> None:
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


@pytest.mark.parametrize(
    "optimizer_class", [torch.optim.Adam, torch.optim.LBFGS, torch.optim.RMSprop, torch.optim.Adagrad]
)
def test_block_removes_optimizer_state_created_inside(optimizer_class: Any) -> None:
    program = PROGRAMS["mlp"]()
    program = program._replace(optimizer=optimizer_class(program.model.parameters()))
    before = fingerprint(program.model, program.optimizer)
    state_count = len(program.optimizer.state)
    with Preserve(program.model, program.optimizer):
        train(program, program.loader(), 2)
    assert len(program.optimizer.state) == state_count
    before.check()


def test_block_restores_tensor_learning_rate() -> None:
    weight, rate = nn.Parameter(torch.ones(1)), torch.tensor(0.1)
    optimizer = torch.optim.Adam([weight], lr=rate, foreach=False)
    with Preserve(optimizer):
        rate.mul_(10)
        optimizer.param_groups[0]["lr"] = 3.0
        weight.data.zero_()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.1)
    assert weight.item() == 1


def test_block_restores_several_optimizers_of_one_model() -> None:
    program = PROGRAMS["mlp"]()
    second_optimizer = torch.optim.SGD(program.model[2].parameters(), lr=1.0, momentum=0.9)
    train(program, program.loader(), 1)
    before = fingerprint(program.model, program.optimizer, second_optimizer)
    with Preserve(program.model, program.optimizer, second_optimizer):
        train(program, program.loader(), 1)
        second_optimizer.step()
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
def test_block_restores_scheduler(name: str) -> None:
    program = PROGRAMS["batch_norm"]()
    scheduler = SCHEDULERS[name](program.optimizer)
    before = fingerprint(program.model, program.optimizer, scheduler)
    with Preserve(program.model, program.optimizer, scheduler):
        train(program, program.loader(), 1)
        for loss in (1.0, 2.0, 3.0, 4.0):
            scheduler.step(loss) if name == "plateau" else scheduler.step()
    before.check()


class LoopState:
    """The state of a custom training loop."""

    def __init__(self) -> None:
        self.micro_step, self.losses, self.best = 0, [0.5], {"loss": torch.tensor(1.0)}


def test_block_restores_grad_scaler_averaged_model_and_loop_state(program: Program) -> None:
    scaler, average, loop_state = torch.amp.GradScaler("cpu", init_scale=8.0), AveragedModel(program.model), LoopState()
    objects = (program.model, program.optimizer, scaler, average, loop_state)
    before = fingerprint(*objects)
    with Preserve(*objects):
        for _ in range(3):
            scaler.scale(program.model(torch.full((2, 5), torch.inf)).sum()).backward()
            scaler.step(program.optimizer)
            scaler.update()
        average.update_parameters(program.model)
        loop_state.micro_step += 1
        loop_state.losses.append(0.1)
        loop_state.best["loss"].zero_()
        assert scaler.get_scale() < 8
    before.check()
    assert scaler.get_scale() == 8
