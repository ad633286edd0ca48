"""Tests that the warnings of torch's schedulers name the user's line while their steps are observed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from nbdebug.hooks.training_events import observe_scheduler_steps


class OwnSchedule(lr_scheduler.ExponentialLR):
    """A schedule that overrides step()."""

    def step(self, epoch: int | None = None) -> None:
        super().step(epoch)


def make_schedule(kind: Any = lr_scheduler.ExponentialLR) -> Any:
    return kind(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), 0.9)


def warnings_of_steps(schedule: Any, *args: Any, count: int = 3) -> list[warnings.WarningMessage]:
    """Return the warnings of the first steps of a schedule whose optimizer has made no step."""
    with warnings.catch_warnings(record=True) as raised_warnings:
        warnings.simplefilter("always")
        for _ in range(count):
            schedule.step(*args)
    return raised_warnings


@pytest.mark.parametrize("args", [(), (2,)], ids=["step before the optimizer", "step with an epoch"])
@pytest.mark.parametrize("kind", [lr_scheduler.ExponentialLR, OwnSchedule])
def test_observed_scheduler_steps_warn_at_the_same_line_as_others(kind: Any, args: tuple[int, ...]) -> None:
    expected = warnings_of_steps(make_schedule(kind), *args)
    calls: list[Any] = []
    with observe_scheduler_steps(lr_scheduler.LRScheduler, calls.append):
        observed = warnings_of_steps(make_schedule(kind), *args)
    assert [(w.filename, w.lineno, str(w.message)) for w in observed] == [
        (w.filename, w.lineno, str(w.message)) for w in expected
    ]
    assert observed[0].filename == __file__
    assert len(calls) == 4  # with that of the constructor


def test_observed_scheduler_steps_leave_the_filters_of_the_user() -> None:
    with observe_scheduler_steps(lr_scheduler.LRScheduler, lambda call: None):
        with warnings.catch_warnings(record=True) as raised_warnings:
            warnings.simplefilter("ignore")
            make_schedule().step()
        assert not raised_warnings
        with warnings.catch_warnings(), pytest.raises(UserWarning, match="Detected call of"):
            warnings.simplefilter("error")
            make_schedule().step()
