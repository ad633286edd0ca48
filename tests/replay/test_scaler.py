"""What a GradScaler overflows by design is no incident; what is wrong under one is."""

from __future__ import annotations

import math

import torch

from nbdebug.debugger import Debugger
from nbdebug.watching.watch import Watch
from tests.replay.faults import ROW, SEVENTH, Through, behind_where, length, points, same, setup, unit


def scaled(
    model: Through, scale: float, odd: float | None = None, epochs: int = 1, fused: bool = False, weight: float = 1.0
) -> Watch:
    """A loop under a GradScaler that starts at some scale."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    debugger = Debugger.of(setup(model, points(odd), optimizers=(optimizer,)))
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    with debugger.watch() as run:
        for _ in range(epochs):
            for x, y in debugger.setup.train_loader:
                optimizer.zero_grad()
                loss = debugger.setup.loss_fn(model(x), y) * weight
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    assert run.error_summary == ""
    return run


def model_of(enter=same, act=torch.relu) -> Through:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    return Through(enter, act)


def test_a_scale_that_is_too_large_at_first_is_by_design() -> None:
    run = scaled(model_of(), 2.0**127, epochs=2, weight=1e3)
    assert 0 < run.record.series("skipped")[1].sum() < 20
    assert run.session.ring.steps == 20
    assert run.session.ring.incidents == []
    assert run.replay() is None


def test_a_fused_step_that_is_left_out_is_by_design() -> None:
    assert scaled(model_of(), 2.0**127, fused=True, epochs=2, weight=1e3).replay() is None


def test_a_loss_that_is_not_finite_before_it_is_scaled_is_told() -> None:
    found = scaled(model_of(unit), 2.0**10, 0.0).replay()
    assert (found.step, found.operation, found.samples) == (SEVENTH + 1, "div", (ROW,))
    assert math.isnan(found.loss)


def test_one_step_that_is_left_out_is_quiet_and_a_gradient_that_never_is_finite_is_told() -> None:
    assert scaled(model_of(same, length), 2.0**10, 1e4).replay() is None
    found = scaled(model_of(same, behind_where), 2.0**16, epochs=3).replay()
    assert (found.phase, found.operation) == ("gradient", "Sqrt")


def test_autocast_is_what_it_was() -> None:
    model = model_of()
    debugger = Debugger.of(setup(model, points(3e5)))
    with debugger.watch() as run:
        for x, y in debugger.setup.train_loader:
            debugger.setup.optimizers[0].zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = debugger.setup.loss_fn(model(x), y)
            loss.backward()
            debugger.setup.optimizers[0].step()
    found = run.replay()
    assert found.step == SEVENTH + 1
    assert found.exact
    assert found.operation
    assert not torch.is_autocast_enabled("cpu")
