"""Tests of replays under a GradScaler: intended overflows are no incidents, faults are."""

from __future__ import annotations

import math

import torch

from nbdebug.debugger import Debugger
from nbdebug.watching.watch import Watch
from tests.replay.faults import (
    ODD_BATCH,
    ODD_ROW,
    ComposedNetwork,
    hypot_of_zeros,
    identity,
    make_network,
    make_points_setup,
    sqrt_behind_where,
)


def train_with_scaler(
    model: ComposedNetwork,
    scale: float,
    odd: float | None = None,
    epochs: int = 1,
    fused: bool = False,
    loss_factor: float = 1.0,
) -> Watch:
    """Train under a GradScaler with this initial scale."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    debugger = Debugger.of(make_points_setup(model, odd, optimizers=(optimizer,)))
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    with debugger.watch() as watch:
        for _ in range(epochs):
            for x, y in debugger.setup.train_loader:
                optimizer.zero_grad()
                loss = debugger.setup.loss_fn(model(x), y) * loss_factor
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    assert watch.error_summary == ""
    return watch


def test_skipped_steps_at_too_large_initial_scale_are_no_incidents() -> None:
    watch = train_with_scaler(make_network(identity), 2.0**127, epochs=2, loss_factor=1e3)
    assert 0 < watch.record.series("skipped")[1].sum() < 20
    assert watch.session.ring.steps == 20
    assert watch.session.ring.incidents == []
    assert watch.replay() is None


def test_skipped_fused_step_is_no_incident() -> None:
    assert train_with_scaler(make_network(identity), 2.0**127, fused=True, epochs=2, loss_factor=1e3).replay() is None


def test_replay_of_non_finite_unscaled_loss_finds_operation() -> None:
    replay = train_with_scaler(make_network(), 2.0**10, 0.0).replay()
    assert (replay.step, replay.operation, replay.samples) == (ODD_BATCH + 1, "div", (ODD_ROW,))
    assert math.isnan(replay.loss)


def test_single_skipped_step_is_no_incident_but_permanently_non_finite_gradient_is() -> None:
    assert train_with_scaler(make_network(identity, hypot_of_zeros), 2.0**10, 1e4).replay() is None
    replay = train_with_scaler(make_network(identity, sqrt_behind_where), 2.0**16, epochs=3).replay()
    assert (replay.phase, replay.operation) == ("gradient", "Sqrt")


def test_replay_of_autocast_pass_is_exact_and_restores_autocast() -> None:
    model = make_network(identity)
    debugger = Debugger.of(make_points_setup(model, 3e5))
    with debugger.watch() as watch:
        for x, y in debugger.setup.train_loader:
            debugger.setup.optimizers[0].zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = debugger.setup.loss_fn(model(x), y)
            loss.backward()
            debugger.setup.optimizers[0].step()
    replay = watch.replay()
    assert replay.step == ODD_BATCH + 1
    assert replay.exact
    assert replay.operation
    assert not torch.is_autocast_enabled("cpu")
