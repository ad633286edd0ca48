"""Tests of RingBuffer: recorded passes, incidents, memory limits, and deferred reads from devices."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from nbdebug.replay import RingBuffer, replay, ring_buffer
from nbdebug.setup import Setup
from tests.replay.faults import (
    BATCH_SIZE,
    FAULTS,
    ODD_BATCH,
    ODD_ROW,
    Operation,
    identity,
    make_network,
    make_points_setup,
)


def train_with_ring(ring: RingBuffer, delay: int | None = None) -> list[float]:
    """Run a plain loop that calls the ring buffer; non-finite losses are reported ``delay`` steps late, if at all."""
    setup, losses = ring.setup, list[float]()
    for x, y in setup.train_loader:
        setup.optimizers[0].zero_grad()
        ring.on_batch([x, y])
        ring.on_forward_begin(setup.model, (x,), {})
        loss = setup.loss_fn(setup.model(x), y)
        ring.on_backward_begin((loss,))
        loss.backward()
        ring.on_backward_end()
        ring.on_step_begin(setup.optimizers[0])
        setup.optimizers[0].step()
        ring.on_step_end(setup.optimizers[0])
        losses.append(loss.item())
        if delay is not None and len(losses) > delay and not math.isfinite(losses[-1 - delay]):
            ring.on_non_finite(len(losses) - delay, loss=losses[-1 - delay])
    return losses


def network_setup(input_operation: Operation | None = None, odd: float | None = 0.0) -> Setup:
    return make_points_setup(make_network(input_operation), odd)


@pytest.mark.parametrize("delay", [0, 2])
def test_replay_of_deferred_ring_with_weights_reruns_the_step_itself(delay: int) -> None:
    ring = RingBuffer(network_setup(), keep_weights=True, deferred=True)
    losses = train_with_ring(ring, delay)
    assert sum(map(math.isnan, losses)) == 4
    result = replay(ring.setup, ring.incident)
    assert (result.step, result.operation, result.samples) == (ODD_BATCH + 1, "div", (ODD_ROW,))
    assert result.non_finite_weights == ()
    assert result.exact


def test_weight_backup_of_deferred_ring_holds_weights_before_the_step() -> None:
    reference, ring = network_setup(), RingBuffer(network_setup(), keep_weights=True, deferred=True)
    train_with_ring(ring)
    batches_before = list(reference.train_loader)[:ODD_BATCH]
    train_with_ring(
        RingBuffer(Setup(reference.model, batches_before, loss_fn=reference.loss_fn, optimizers=reference.optimizers))
    )
    assert ring.weight_backup is not None
    copies = dict(zip(map(id, ring.weight_backup.tensors), ring.weight_backup.copies, strict=True))
    for parameter, expected in zip(ring.setup.model.parameters(), reference.model.parameters(), strict=True):
        assert torch.equal(copies[id(parameter)], expected)


def test_replay_of_deferred_ring_without_weights_states_that_they_were_updated() -> None:
    ring = RingBuffer(network_setup(), deferred=True)
    train_with_ring(ring, 1)
    result = replay(ring.setup, ring.incident)
    assert result.rerun_loss is None
    assert "had already been updated" in str(result)
    assert "could not be rerun" in str(result)


def test_replay_of_deferred_ring_without_weights_finds_non_finite_batch() -> None:
    ring = RingBuffer(network_setup(identity, math.inf), deferred=True)
    train_with_ring(ring, 1)
    result = replay(ring.setup, ring.incident)
    assert [fault.code for fault in result.report.faults] == ["D103"]
    assert result.samples == (ODD_ROW,)


def test_incident_with_too_large_weights_has_no_copy_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_buffer, "MAX_WEIGHT_BYTES", 100)
    ring = RingBuffer(network_setup())
    train_with_ring(ring)
    assert ring.incident.weights is None
    assert "were not copied" in str(replay(ring.setup, ring.incident))


def test_ring_buffer_with_many_incidents_holds_two_and_limits_freezes() -> None:
    setup = network_setup(identity, None)
    ring = RingBuffer(setup)
    for step in range(60):
        ring.on_forward_begin(setup.model, (torch.ones(2, 4),), {})
        value = math.inf if step % 3 == 0 else 1.0
        ring.on_backward_begin((torch.tensor(value, requires_grad=True),))
        ring.on_step_begin(setup.optimizers[0])
        ring.on_step_end(setup.optimizers[0])
    assert [incident.step for incident in ring.incidents] == [1, 22]
    assert ring.freeze_count == ring_buffer.MAX_FREEZES


def test_ring_buffer_does_not_count_consequences_of_an_incident() -> None:
    ring = RingBuffer(network_setup())
    train_with_ring(ring)
    assert [incident.step for incident in ring.incidents] == [ODD_BATCH + 1]


def test_recorded_inputs_share_memory_but_have_no_graph() -> None:
    setup = network_setup(identity, None)
    ring = RingBuffer(setup)
    x = nn.Linear(4, 4)(torch.ones(2, 4))
    ring.on_forward_begin(setup.model, (x, [x]), {"extra": x})
    call = ring.current_pass.forwards[0]
    assert call.args[0].data_ptr() == x.data_ptr()
    assert all(tensor.grad_fn is None for tensor in (call.args[0], call.args[1][0], call.kwargs["extra"]))


def test_ring_buffer_with_large_inputs_drops_old_passes() -> None:
    setup = network_setup(identity, None)
    ring = RingBuffer(setup)
    large = torch.zeros(8 << 20)
    for _ in range(10):
        ring.on_forward_begin(setup.model, (large.clone(),), {})
        ring.on_backward_begin((torch.tensor(1.0, requires_grad=True),))
    assert len(ring.passes) == 2


@pytest.mark.parametrize("name", ["zero distance behind dropout and batch norm", "half precision"])
def test_replay_of_ring_buffer_without_hooks_finds_operation(name: str) -> None:
    ring = RingBuffer(FAULTS[name].build())
    train_with_ring(ring)
    assert replay(ring.setup, ring.incident).operation == FAULTS[name].operation


def test_replay_of_batch_with_dataset_indices_reports_the_index() -> None:
    setup = network_setup()
    ring = RingBuffer(setup)
    for index, (x, y) in enumerate(setup.train_loader):
        setup.optimizers[0].zero_grad()
        ring.on_batch([x, y], tuple(range(BATCH_SIZE * index, BATCH_SIZE * (index + 1))))
        ring.on_forward_begin(setup.model, (x,), {})
        loss: Tensor = setup.loss_fn(setup.model(x), y)
        ring.on_backward_begin((loss,))
        loss.backward()
    assert replay(setup, ring.incident).samples == (BATCH_SIZE * ODD_BATCH + ODD_ROW,)
