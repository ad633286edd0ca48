"""A replay leaves no trace, however it ends, and a run that is kept ready for one goes on as without."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.interruption import fail, interrupt
from tests.replay.faults import FAULTS, Through, points, same, setup, unit
from tests.replay.loops import train

CHOSEN = (
    "distance of zero behind dropout and batch norm",
    "weight of zero in a loss of the model",
    "softmax over a row that is masked throughout",
)
every_fault = pytest.mark.parametrize("name", CHOSEN)


class Wire:
    """Acts at one of the forward calls; its count is no part of the program."""

    moments, at = 0, -1

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act

    def __call__(self, *_: object) -> None:
        Wire.moments += 1
        if Wire.moments - 1 == Wire.at:
            self.act()


def ready(name: str) -> tuple[Watch, Fingerprint, Setup]:
    """A run with an incident that was not replayed yet, with gradients lying about."""
    debugger = Debugger.of(FAULTS[name].build())
    with debugger.watch() as run:
        train(debugger.setup)
    run.replay_result = None
    prepared = debugger.setup
    return run, fingerprint(*prepared.mutable_objects, loaders=[prepared.train_loader]), prepared


@every_fault
def test_a_replay_leaves_no_trace_and_gives_the_same_again(name: str) -> None:
    run, before, _ = ready(name)
    first = str(run.replay())
    before.check()
    run.replay_result = None
    assert str(run.replay()) == first
    before.check()


@every_fault
@pytest.mark.parametrize("act", [fail, interrupt])
def test_a_replay_that_is_cut_short_leaves_no_trace(name: str, act: Callable[[], None]) -> None:
    run, _, prepared = ready(name)
    wire = Wire(act)
    prepared.model.register_forward_pre_hook(wire)
    prepared.model.register_forward_hook(wire)
    before = fingerprint(*prepared.mutable_objects, loaders=[prepared.train_loader])
    Wire.moments, Wire.at = 0, -1
    run.replay()
    assert Wire.moments >= 4
    for moment in range(Wire.moments):
        Wire.moments, Wire.at, run.replay_result = 0, moment, None
        with suppress(KeyboardInterrupt):
            run.replay()
        before.check()


def test_a_run_with_an_incident_ends_bit_for_bit_where_an_unwatched_one_does() -> None:
    def end(watched: bool) -> tuple[list[float], list[Tensor]]:
        debugger = Debugger.of(FAULTS[CHOSEN[0]].build())
        if watched:
            with debugger.watch():
                losses = train(debugger.setup)
        else:
            losses = train(debugger.setup)
        return losses, [*debugger.setup.model.parameters(), *debugger.setup.model.buffers(), torch.rand(3)]

    (losses, left), (alone, bare) = end(True), end(False)
    torch.testing.assert_close(losses, alone, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(left, bare, rtol=0, atol=0, equal_nan=True)


class Checkpointed(Through):
    """A model that runs its middle again in the backward pass, batch norm included."""

    def __init__(self) -> None:
        super().__init__(unit, torch.relu)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        middle = checkpoint(lambda h: self.norm(self.body(h)).relu(), self.enter(x), use_reentrant=False)
        return self.head(middle)


def test_reading_the_graph_of_a_checkpointed_model_changes_nothing() -> None:
    def end(watched: bool) -> tuple[list[Tensor], Watch | None]:
        torch.manual_seed(0)
        debugger = Debugger.of(setup(Checkpointed(), points(0.0)))
        run = None
        if watched:
            with debugger.watch() as run:
                train(debugger.setup)
        else:
            train(debugger.setup)
        return [*debugger.setup.model.parameters(), *debugger.setup.model.buffers()], run

    left, run = end(True)
    assert run is not None
    assert run.error_summary == ""
    torch.testing.assert_close(left, end(False)[0], rtol=0, atol=0, equal_nan=True)
    assert run.replay().operation == "div"


def test_a_loop_without_incidents_keeps_one_pass_and_no_weights() -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(setup(Through(same, torch.relu), points()))
    with debugger.watch() as run:
        train(debugger.setup, 3)
    ring = run.session.ring
    assert ring.incidents == []
    assert len(ring.passes) <= 2
