"""Steps that are not followed: a short way through their events, which comes to the same as the long one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import nbdebug
from nbdebug.hooks.training_events import StepVisibility
from nbdebug.watching.session import FastPath
from nbdebug.watching.time_budget import ALWAYS_MEASURED_STEPS
from nbdebug.watching.watch import Watch
from tests.watching.rhythms import TINY, seldom

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


class Noisy(nn.Module):
    """Draws by a function of its own, which no kind of module tells of."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x)


def watched(
    *more: nn.Module, steps: int = ALWAYS_MEASURED_STEPS + 32, passes: int = 1, spoiled: int | None = None
) -> Watch:
    """A loop with gradients that are clipped now and then; the input of one step may be spoiled."""
    torch.manual_seed(0)
    model, loss_fn = nn.Sequential(*more, nn.Linear(6, 2)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
    debugger = nbdebug.Debugger(model, [(X, Y)], loss_fn=loss_fn, optimizer=optimizer)
    with seldom(debugger.watch(budget=TINY)) as watch:
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            for _ in range(passes):
                loss_fn(model(X * float("inf" if step == spoiled else 1.0)), Y).backward()
            if step % 5 == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
    assert not watch.error_summary
    return watch


@pytest.mark.parametrize("passes", [1, 2])
def test_the_short_way_comes_to_what_the_long_way_comes_to(passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    short, taken = watched(passes=passes), list[str]()
    for name in ("before_backward", "before_step", "after_step"):
        monkeypatch.setattr(FastPath, name, lambda *_, name=name: bool(taken.append(name)))
    long = watched(passes=passes)
    assert set(taken) == {"before_backward", "before_step", "after_step"}
    for signal in ("loss", "lr", "momentum", "raw_gradient_norm", "clip_scale", "gradient_norm"):
        for one, other in zip(short.record.series(signal), long.record.series(signal), strict=True):
            np.testing.assert_array_equal(one, other)
    assert counted(short) == counted(long)


def counted(watch: Watch) -> Any:
    """What was counted of a loop."""
    assert watch.session is not None
    follower, ring = watch.session.loop_monitor, watch.session.ring
    return follower.summary(()).backward_passes, follower.steps, follower.tracked_steps, ring.steps, len(ring.passes)


@pytest.mark.parametrize("more", [(), (nn.Dropout(0.3),), (Noisy(),)])
def test_a_step_that_was_not_followed_is_replayed_with_its_own_random_numbers(more: tuple[nn.Module, ...]) -> None:
    spoiled = ALWAYS_MEASURED_STEPS + 7
    watch = watched(*more, spoiled=spoiled, steps=ALWAYS_MEASURED_STEPS + 8)
    assert watch.session is not None
    assert watch.session.ring.depends_on_context is bool(more)
    again = watch.replay()
    assert again is not None
    assert (again.step, again.exact) == (spoiled, True)


def test_where_nothing_is_drawn_the_random_state_is_not_read_again() -> None:
    for more, different in (((), 1), ((Noisy(),), 2)):
        watch = watched(*more, steps=ALWAYS_MEASURED_STEPS + 4)
        assert watch.session is not None
        ring = watch.session.ring
        assert ring.visibility is StepVisibility.LOSS_AND_REPLAY
        for _ in range(2):
            ring.on_forward_begin(nn.Identity(), (X,), {})
            torch.randn(3)
        states = {id(call.random_state["cpu"]) for call in ring.current_pass.forwards[-2:]}
        assert len(states) == different
