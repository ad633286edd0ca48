"""The range test leaves no trace, at whatever moment of a sweep it is cut short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nbdebug.debugger import Debugger
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.interruption import CallPathHook, fail, first_calls, interrupt, last_calls, record_call_paths
from tests.programs import PROGRAMS, Program, train

every_program = pytest.mark.parametrize("name", PROGRAMS)


class Case:
    """A program after three steps with a schedule, its debugger, a tripwire on all its parts, and its fingerprint."""

    def __init__(self, name: str, **given: Any) -> None:
        self.program: Program = PROGRAMS[name]()
        loader = self.program.loader(generator=torch.Generator().manual_seed(3))
        scheduler = torch.optim.lr_scheduler.StepLR(self.program.optimizer, 2)
        train(self.program, loader, 3)
        CallPathHook().attach(self.program)
        model, loss_fn, optimizer, _ = self.program
        given = {"loss_fn": loss_fn, "optimizer": optimizer, "scheduler": scheduler, **given}
        self.debugger = Debugger(model, loader, loader, **given)
        owned = (model, loss_fn, optimizer, scheduler, *given.get("extra_state", ()))
        self.before: Fingerprint = fingerprint(*owned, loaders=[loader])

    def run(self, **asked: Any) -> None:
        """A short range test."""
        self.debugger.lr_range(steps=10, seeds=2, **asked)


@every_program
def test_a_whole_test_leaves_no_trace_although_it_trained(name: str) -> None:
    case = Case(name)
    assert len(record_call_paths(case.run)) > 20
    case.before.check()


@every_program
@pytest.mark.parametrize("act", [fail, interrupt])
def test_a_test_that_is_cut_short_at_any_moment_leaves_no_trace(name: str, act: Callable[[], None]) -> None:
    """However the package comes to a forward, a gradient or a step: the first time, and the last."""
    case = Case(name)
    places = record_call_paths(case.run)
    for moment in sorted({*first_calls(places), *last_calls(places)}):
        assert len(record_call_paths(case.run, moment, act)) == moment + 1
        case.before.check()


@pytest.mark.parametrize(
    "asked", [{"end": 1e9, "start": 1e3}, {"accumulate": 3}, {"val": True}, {"max_norm": 0.1}, {"groups": "same"}]
)
def test_no_option_leaves_a_trace(asked: dict[str, Any]) -> None:
    case = Case("batch_norm")
    case.run(**asked)
    case.before.check()


def test_other_quantities_leave_no_trace() -> None:
    case = Case("batch_norm")
    case.debugger.momentum_range(steps=10)
    case.debugger.weight_decay_range(steps=10)
    case.before.check()


@pytest.mark.parametrize("step", [0, 1, 5, 19])
def test_a_grad_scaler_is_put_back_with_the_rest(step: int) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=2)
    case = Case("mlp", extra_state=(scaler,))
    loss_fn, model = case.program.loss_fn, case.program.model
    calls: list[int] = []

    def step_fn(batch: Any) -> Tensor:
        calls.append(1)
        if len(calls) == step + 1:
            raise KeyboardInterrupt
        return loss_fn(model(batch[0]), batch[1])

    case.debugger.setup.step_fn = step_fn
    with pytest.raises(KeyboardInterrupt):
        case.run()
    case.before.check()
    assert scaler.state_dict()["scale"] == 2.0**40


def test_an_optimizer_of_another_kind_that_was_given_is_put_back_too() -> None:
    case = Case("mlp")
    other = torch.optim.SGD(case.program.model.parameters(), lr=0.1, momentum=0.9)
    before = fingerprint(other)
    case.run(optimizer=other)
    case.before.check()
    before.check()
    assert not other.state


def test_training_goes_on_as_if_nothing_had_been() -> None:
    torch.manual_seed(7)
    alone = PROGRAMS["dropout"]()
    losses = train(alone, alone.loader(), 20)
    torch.manual_seed(7)
    used = PROGRAMS["dropout"]()
    loader = used.loader()
    Debugger(used.model, loader, loss_fn=used.loss_fn, optimizer=used.optimizer).lr_range(steps=20)
    assert train(used, loader, 20) == losses
