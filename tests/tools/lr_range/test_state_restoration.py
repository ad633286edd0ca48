"""Tests that a range test restores the program, even if it is cut short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nbdebug.debugger import Debugger
from tests.preserve.fingerprint import fingerprint
from tests.preserve.interruption import fail, first_calls, interrupt, last_calls, record_call_paths
from tests.programs import PROGRAMS, train
from tests.tools.lr_range.fingerprinted_program import FingerprintedProgram
from tests.tools.lr_range.setups import step_fn_with_error

every_program = pytest.mark.parametrize("name", PROGRAMS)


@every_program
def test_lr_range_restores_program_after_training(name: str) -> None:
    program = FingerprintedProgram(name)
    assert len(record_call_paths(program.run)) > 20
    program.before.check()


@every_program
@pytest.mark.parametrize("cut_short", [fail, interrupt])
def test_lr_range_cut_short_at_any_moment_restores_program(name: str, cut_short: Callable[[], None]) -> None:
    """Every line of the package that runs a forward, a gradient or a step is cut short, first and last time."""
    program = FingerprintedProgram(name)
    call_sites = record_call_paths(program.run)
    for moment in sorted({*first_calls(call_sites), *last_calls(call_sites)}):
        assert len(record_call_paths(program.run, moment, cut_short)) == moment + 1
        program.before.check()


@pytest.mark.parametrize(
    "options",
    [{"end": 1e9, "start": 1e3}, {"accumulate": 3}, {"val": True}, {"max_norm": 0.1}, {"groups": "same"}],
    ids=["divergence", "accumulate", "val", "max_norm", "groups"],
)
def test_lr_range_with_option_restores_program(options: dict[str, Any]) -> None:
    program = FingerprintedProgram("batch_norm")
    program.run(**options)
    program.before.check()


def test_momentum_and_weight_decay_range_restore_program() -> None:
    program = FingerprintedProgram("batch_norm")
    program.debugger.momentum_range(steps=10)
    program.debugger.weight_decay_range(steps=10)
    program.before.check()


@pytest.mark.parametrize("step", [0, 1, 5, 19])
def test_lr_range_interrupted_restores_grad_scaler(step: int) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=2)
    program = FingerprintedProgram("mlp", extra_state=(scaler,))
    program.debugger.setup.step_fn = step_fn_with_error(program.debugger.setup, step, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        program.run()
    program.before.check()
    assert scaler.state_dict()["scale"] == 2.0**40


def test_lr_range_restores_optimizer_passed_as_option() -> None:
    program = FingerprintedProgram("mlp")
    optimizer = torch.optim.SGD(program.program.model.parameters(), lr=0.1, momentum=0.9)
    before = fingerprint(optimizer)
    program.run(optimizer=optimizer)
    program.before.check()
    before.check()
    assert not optimizer.state


def test_training_after_lr_range_gives_same_losses() -> None:
    torch.manual_seed(7)
    untested = PROGRAMS["dropout"]()
    expected_losses = train(untested, untested.loader(), 20)
    torch.manual_seed(7)
    tested = PROGRAMS["dropout"]()
    loader = tested.loader()
    Debugger(tested.model, loader, loss_fn=tested.loss_fn, optimizer=tested.optimizer).lr_range(steps=20)
    assert train(tested, loader, 20) == expected_losses
