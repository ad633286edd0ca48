"""Tests of the fast path of untracked steps, which records the same as the full path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import nbdebug
from nbdebug.hooks.training_events import StepVisibility
from nbdebug.loop_monitor.summary import summarize_loop
from nbdebug.watching.fast_path import FastPath
from nbdebug.watching.time_budget import ALWAYS_MEASURED_STEPS
from nbdebug.watching.watch import Watch
from tests.watching.budgets import TINY_BUDGET, without_enforcement
from tests.watching.points import labeled_points

X, Y = labeled_points(16)


class NoiseLayer(nn.Module):
    """A layer that draws random numbers, which its class does not reveal."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x)


def train_watched(
    *layers: nn.Module, steps: int = ALWAYS_MEASURED_STEPS + 32, passes: int = 1, non_finite_step: int | None = None
) -> Watch:
    """Train with gradients clipped at every fifth step; the input of ``non_finite_step`` is infinite."""
    torch.manual_seed(0)
    model, loss_fn = nn.Sequential(*layers, nn.Linear(6, 2)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
    debugger = nbdebug.Debugger(model, [(X, Y)], loss_fn=loss_fn, optimizer=optimizer)
    with without_enforcement(debugger.watch(budget=TINY_BUDGET)) as watch:
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            for _ in range(passes):
                loss_fn(model(X * float("inf" if step == non_finite_step else 1.0)), Y).backward()
            if step % 5 == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
    assert not watch.error_summary
    return watch


@pytest.mark.parametrize("passes", [1, 2])
def test_fast_path_records_the_same_signals_and_counts_as_the_full_path(
    passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, calls = train_watched(passes=passes), list[str]()
    for name in ("before_backward", "before_step", "after_step"):
        monkeypatch.setattr(FastPath, name, lambda *_, name=name: bool(calls.append(name)))
    full = train_watched(passes=passes)
    assert set(calls) == {"before_backward", "before_step", "after_step"}
    for signal in ("loss", "lr", "momentum", "raw_gradient_norm", "clip_scale", "gradient_norm"):
        for actual, expected in zip(fast.record.series(signal), full.record.series(signal), strict=True):
            np.testing.assert_array_equal(actual, expected)
    assert event_counts(fast) == event_counts(full)


def event_counts(watch: Watch) -> Any:
    assert watch.session is not None
    monitor, ring = watch.session.loop_monitor, watch.session.ring
    return (
        summarize_loop(monitor, ()).backward_passes,
        monitor.steps,
        monitor.tracked_steps,
        ring.steps,
        len(ring.passes),
    )


@pytest.mark.parametrize("layers", [(), (nn.Dropout(0.3),), (NoiseLayer(),)])
def test_replay_of_fast_path_step_restores_its_random_state(layers: tuple[nn.Module, ...]) -> None:
    non_finite_step = ALWAYS_MEASURED_STEPS + 7
    watch = train_watched(*layers, non_finite_step=non_finite_step, steps=ALWAYS_MEASURED_STEPS + 8)
    assert watch.session is not None
    assert watch.session.ring.depends_on_context is bool(layers)
    replay = watch.replay()
    assert replay is not None
    assert (replay.step, replay.exact) == (non_finite_step, True)


def test_random_state_is_read_again_only_if_the_model_draws_random_numbers() -> None:
    for layers, state_count in (((), 1), ((NoiseLayer(),), 2)):
        watch = train_watched(*layers, steps=ALWAYS_MEASURED_STEPS + 4)
        assert watch.session is not None
        ring = watch.session.ring
        assert ring.visibility is StepVisibility.LOSS_AND_REPLAY
        for _ in range(2):
            ring.on_forward_begin(nn.Identity(), (X,), {})
            torch.randn(3)
        states = {id(call.random_state["cpu"]) for call in ring.current_pass.forwards[-2:]}
        assert len(states) == state_count
