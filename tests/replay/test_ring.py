"""The ring of last passes: what it keeps, for how long, and at what price; and devices that nobody waits for."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from nbdebug.replay import RingBuffer, replay
from nbdebug.replay import ring_buffer as module
from nbdebug.setup import Setup
from tests.replay.faults import FAULTS, ROW, SEVENTH, Through, points, same, setup, unit


def loop(ring: RingBuffer, told: int | None = None) -> list[float]:
    """A plain loop that tells a ring of itself; the losses arrive ``told`` steps late, if at all."""
    given, losses = ring.setup, list[float]()
    for x, y in given.train_loader:
        given.optimizers[0].zero_grad()
        ring.on_batch([x, y])
        ring.on_forward_begin(given.model, (x,), {})
        loss = given.loss_fn(given.model(x), y)
        ring.on_backward_begin((loss,))
        loss.backward()
        ring.on_backward_end()
        ring.on_step_begin(given.optimizers[0])
        given.optimizers[0].step()
        ring.on_step_end(given.optimizers[0])
        losses.append(loss.item())
        if told is not None and len(losses) > told and not math.isfinite(losses[-1 - told]):
            ring.on_non_finite(len(losses) - told, loss=losses[-1 - told])
    return losses


def ready(enter=unit, odd: float | None = 0.0) -> Setup:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    return setup(Through(enter, torch.relu), points(odd))


@pytest.mark.parametrize("late", [0, 2])
def test_a_device_that_nobody_waits_for_keeps_the_weights_of_the_step_itself(late: int) -> None:
    ring = RingBuffer(ready(), keep_weights=True, deferred=True)
    losses = loop(ring, late)
    assert sum(map(math.isnan, losses)) == 4
    found = replay(ring.setup, ring.incident)
    assert (found.step, found.operation, found.samples, found.non_finite_weights) == (SEVENTH + 1, "div", (ROW,), ())
    assert found.exact


def test_the_weights_that_a_device_keeps_are_those_before_the_step() -> None:
    alone, ring = ready(), RingBuffer(ready(), keep_weights=True, deferred=True)
    loop(ring)
    short = [batch for at, batch in enumerate(alone.train_loader) if at < SEVENTH]
    loop(RingBuffer(Setup(alone.model, short, loss_fn=alone.loss_fn, optimizers=alone.optimizers)))
    assert ring.weight_backup is not None
    kept = dict(zip(map(id, ring.weight_backup.tensors), ring.weight_backup.copies, strict=True))
    for one, other in zip(ring.setup.model.parameters(), alone.model.parameters(), strict=True):
        assert torch.equal(kept[id(one)], other)


def test_without_kept_weights_the_replay_says_that_they_have_moved_on() -> None:
    ring = RingBuffer(ready(), deferred=True)
    loop(ring, 1)
    found = replay(ring.setup, ring.incident)
    assert found.rerun_loss is None
    assert "had already been updated" in str(found)
    assert "could not be rerun" in str(found)


def test_a_batch_that_is_not_finite_is_told_without_any_weights() -> None:
    ring = RingBuffer(ready(same, math.inf), deferred=True)
    loop(ring, 1)
    found = replay(ring.setup, ring.incident)
    assert [one.code for one in found.report.faults] == ["D103"]
    assert found.samples == (ROW,)


def test_weights_that_are_too_large_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WEIGHT_BYTES", 100)
    ring = RingBuffer(ready())
    loop(ring)
    assert ring.incident.weights is None
    assert "were not copied" in str(replay(ring.setup, ring.incident))


def test_only_the_first_incident_and_the_last_are_kept() -> None:
    given = ready(same, None)
    ring = RingBuffer(given)
    for step in range(60):
        ring.on_forward_begin(given.model, (torch.ones(2, 4),), {})
        value = math.inf if step % 3 == 0 else 1.0
        ring.on_backward_begin((torch.tensor(value, requires_grad=True),))
        ring.on_step_begin(given.optimizers[0])
        ring.on_step_end(given.optimizers[0])
    assert [one.step for one in ring.incidents] == [1, 22]
    assert ring.freeze_count == module.MAX_FREEZES


def test_what_follows_from_an_incident_is_none_of_its_own() -> None:
    ring = RingBuffer(ready())
    loop(ring)
    assert [one.step for one in ring.incidents] == [SEVENTH + 1]


def test_the_graph_behind_an_input_is_not_kept() -> None:
    given = ready(same, None)
    ring = RingBuffer(given)
    made = nn.Linear(4, 4)(torch.ones(2, 4))
    ring.on_forward_begin(given.model, (made, [made]), {"more": made})
    call = ring.current_pass.forwards[0]
    assert call.args[0].data_ptr() == made.data_ptr()
    assert all(one.grad_fn is None for one in (call.args[0], call.args[1][0], call.kwargs["more"]))


def test_passes_that_hold_much_memory_are_let_go() -> None:
    given = ready(same, None)
    ring = RingBuffer(given)
    large = torch.zeros(8 << 20)
    for _ in range(10):
        ring.on_forward_begin(given.model, (large.clone(),), {})
        ring.on_backward_begin((torch.tensor(1.0, requires_grad=True),))
    assert len(ring.passes) == 2


@pytest.mark.parametrize("name", ["distance of zero behind dropout and batch norm", "half precision"])
def test_a_ring_hears_of_a_loop_by_its_methods_alone(name: str) -> None:
    ring = RingBuffer(FAULTS[name].build())
    loop(ring)
    assert replay(ring.setup, ring.incident).operation == FAULTS[name].operation


def test_an_index_in_the_data_set_is_said_where_it_is_known() -> None:
    given = ready()
    ring = RingBuffer(given)
    for at, (x, y) in enumerate(given.train_loader):
        given.optimizers[0].zero_grad()
        ring.on_batch([x, y], tuple(range(16 * at, 16 * at + 16)))
        ring.on_forward_begin(given.model, (x,), {})
        loss: Tensor = given.loss_fn(given.model(x), y)
        ring.on_backward_begin((loss,))
        loss.backward()
    assert replay(given, ring.incident).samples == (16 * SEVENTH + ROW,)
