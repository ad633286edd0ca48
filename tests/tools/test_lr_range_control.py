"""Momentum and weight decay are told against the user's own value, since the loss falls with time whatever they do."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup


def learner(**settings: Any) -> Setup:
    """A classifier that plain SGD trains with these settings."""
    setup = training_setup(mlp(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss())
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), **settings),)
    return setup


def test_sweeping_what_has_no_effect_finds_nothing_although_the_loss_falls() -> None:
    setup = learner(lr=0.5, weight_decay=1e-9)
    found = Debugger.of(setup).weight_decay_range(start=1e-9, end=1e-6)
    assert found.verdict == "flat"
    assert found.suggestion is None
    assert found.headline == "No weight decay that was tried does clearly better than yours, 1e-09."
    assert found.reasons == ("the loss is about the same",)
    assert all(abs(loss) < 1e-3 for one in found.sweeps for loss in one.losses)


def test_more_momentum_helps_where_steps_are_too_short() -> None:
    found = Debugger.of(learner(lr=0.02)).momentum_range()
    assert found.verdict == "clear"
    assert found.current == 0.0
    assert found.suggestion > 0.9
    assert "does better than yours, 0: its loss is" in found.headline


def test_less_weight_decay_helps_where_there_is_too_much() -> None:
    found = Debugger.of(learner(lr=0.5, momentum=0.9, weight_decay=0.3)).weight_decay_range(steps=200)
    assert found.verdict == "clear"
    assert found.suggestion < 0.1


def test_where_more_is_worse_that_is_said() -> None:
    found = Debugger.of(learner(lr=0.5, momentum=0.5)).momentum_range(end=0.999)
    assert found.suggestion is None or found.suggestion < 0.99
    decay = Debugger.of(learner(lr=0.5, momentum=0.9)).weight_decay_range(end=10.0)
    assert decay.verdict == "flat"
    assert "the loss is higher from" in decay.reasons[0]


def test_the_losses_are_differences_of_equal_batches() -> None:
    found = Debugger.of(learner(lr=0.02)).momentum_range(start=0.0, end=0.9, steps=20, seeds=2)
    assert [one.losses[0] for one in found.sweeps] == [0.0, 0.0]
    assert found.steps == 80
    assert any("relative to that of the same batches" in one for one in found.notes)


@pytest.mark.parametrize("step", [0, 3, 30])
def test_a_control_that_breaks_down_ends_the_sweep(step: int) -> None:
    setup, calls = learner(lr=0.1), []

    def step_fn(batch: Any) -> Tensor:
        calls.append(1)
        loss = nn.functional.cross_entropy(setup.model(batch[0]), batch[1])
        return loss * math.nan if len(calls) == step + 1 else loss

    setup.step_fn = step_fn
    found = Debugger.of(setup).momentum_range(steps=40, seeds=1)
    assert found.sweeps[0].ended == "not finite"
    assert found.suggestion is None
    assert str(found)
