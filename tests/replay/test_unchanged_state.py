"""Tests that replays, and recording for them, change no state of the program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.interruption import fail, interrupt
from tests.replay.faults import FAULTS, ComposedNetwork, identity, make_network, make_points_setup, unit_length
from tests.replay.loops import train, train_watched

FAULT_NAMES = (
    "zero distance behind dropout and batch norm",
    "zero weight in the loss of the model",
    "softmax over a fully masked row",
)
every_fault = pytest.mark.parametrize("name", FAULT_NAMES)


class CallTrigger:
    """A hook that raises at call number ``target``; its counter is shared, so that copies of the model count too."""

    calls, target = 0, -1

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action

    def __call__(self, *_: object) -> None:
        CallTrigger.calls += 1
        if CallTrigger.calls - 1 == CallTrigger.target:
            self.action()


def run_until_incident(name: str) -> tuple[Watch, Fingerprint, Setup]:
    """Return a run with an incident that was not replayed yet, the fingerprint of its state, and its setup."""
    debugger = Debugger.of(FAULTS[name].build())
    watch = train_watched(debugger)
    watch.replay_result = None
    setup = debugger.setup
    return watch, fingerprint(*setup.mutable_objects, loaders=[setup.train_loader]), setup


@every_fault
def test_replay_changes_no_state_and_is_repeatable(name: str) -> None:
    watch, before, _ = run_until_incident(name)
    text = str(watch.replay())
    before.check()
    watch.replay_result = None
    assert str(watch.replay()) == text
    before.check()


@every_fault
@pytest.mark.parametrize("action", [fail, interrupt])
def test_replay_that_is_interrupted_or_fails_changes_no_state(name: str, action: Callable[[], None]) -> None:
    watch, _, setup = run_until_incident(name)
    trigger = CallTrigger(action)
    setup.model.register_forward_pre_hook(trigger)
    setup.model.register_forward_hook(trigger)
    before = fingerprint(*setup.mutable_objects, loaders=[setup.train_loader])
    CallTrigger.calls, CallTrigger.target = 0, -1
    watch.replay()
    assert CallTrigger.calls >= 4
    for call in range(CallTrigger.calls):
        CallTrigger.calls, CallTrigger.target, watch.replay_result = 0, call, None
        with suppress(KeyboardInterrupt):
            watch.replay()
        before.check()


def test_watched_run_with_incident_is_bit_identical_to_unwatched_run() -> None:
    def final_state(is_watched: bool) -> tuple[list[float], list[Tensor]]:
        debugger = Debugger.of(FAULTS[FAULT_NAMES[0]].build())
        with debugger.watch() if is_watched else nullcontext():
            losses = train(debugger.setup)
        return losses, [*debugger.setup.model.parameters(), *debugger.setup.model.buffers(), torch.rand(3)]

    (losses, tensors), (expected_losses, expected_tensors) = final_state(True), final_state(False)
    torch.testing.assert_close(losses, expected_losses, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(tensors, expected_tensors, rtol=0, atol=0, equal_nan=True)


class CheckpointedNetwork(ComposedNetwork):
    """A network with a checkpointed layer and batch normalization."""

    def __init__(self) -> None:
        super().__init__(unit_length, torch.relu)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.input_operation(x)
        return self.head(checkpoint(lambda h: self.norm(self.body(h)).relu(), scaled, use_reentrant=False))


def test_watched_run_of_checkpointed_model_is_bit_identical_to_unwatched_run() -> None:
    def final_state(is_watched: bool) -> tuple[list[Tensor], Watch | None]:
        torch.manual_seed(0)
        debugger = Debugger.of(make_points_setup(CheckpointedNetwork()))
        with debugger.watch() if is_watched else nullcontext() as watch:
            train(debugger.setup)
        return [*debugger.setup.model.parameters(), *debugger.setup.model.buffers()], watch

    tensors, watch = final_state(True)
    assert watch is not None
    assert watch.error_summary == ""
    torch.testing.assert_close(tensors, final_state(False)[0], rtol=0, atol=0, equal_nan=True)
    assert watch.replay().operation == "div"


def test_ring_buffer_of_run_without_incidents_holds_at_most_two_passes() -> None:
    watch = train_watched(Debugger.of(make_points_setup(make_network(identity), None)), epochs=3)
    ring = watch.session.ring
    assert ring.incidents == []
    assert len(ring.passes) <= 2
