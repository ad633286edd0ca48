"""Tests of momentum and weight decay ranges, whose losses are relative to a control run at the user's own value."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup
from tests.tools.lr_range.setups import ring_classifier


def sgd_ring_classifier(**settings: Any) -> Setup:
    """A classifier of rings, trained by SGD with these settings."""
    setup = ring_classifier()
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), **settings),)
    return setup


def test_weight_decay_range_without_effect_is_flat_although_loss_falls() -> None:
    setup = sgd_ring_classifier(lr=0.5, weight_decay=1e-9)
    result = Debugger.of(setup).weight_decay_range(start=1e-9, end=1e-6)
    assert result.verdict == "flat"
    assert result.suggestion is None
    assert result.headline == "No weight decay that was tried does clearly better than yours, 1e-09."
    assert result.reasons == ("the loss is about the same",)
    assert all(abs(loss) < 1e-3 for sweep in result.sweeps for loss in sweep.losses)


def test_momentum_range_with_small_steps_suggests_higher_momentum() -> None:
    result = Debugger.of(sgd_ring_classifier(lr=0.02)).momentum_range()
    assert result.verdict == "clear"
    assert result.current == 0.0
    assert result.suggestion > 0.9
    assert "does better than yours, 0: its loss is" in result.headline


def test_weight_decay_range_with_too_strong_decay_suggests_less() -> None:
    result = Debugger.of(sgd_ring_classifier(lr=0.5, momentum=0.9, weight_decay=0.3)).weight_decay_range(steps=200)
    assert result.verdict == "clear"
    assert result.suggestion < 0.1


def test_range_test_where_higher_values_are_worse_suggests_none_of_them() -> None:
    momentum_result = Debugger.of(sgd_ring_classifier(lr=0.5, momentum=0.5)).momentum_range(end=0.999)
    assert momentum_result.suggestion is None or momentum_result.suggestion < 0.99
    decay_result = Debugger.of(sgd_ring_classifier(lr=0.5, momentum=0.9)).weight_decay_range(end=10.0)
    assert decay_result.verdict == "flat"
    assert "the loss is higher from" in decay_result.reasons[0]


def test_momentum_range_losses_are_relative_to_control_on_same_batches() -> None:
    result = Debugger.of(sgd_ring_classifier(lr=0.02)).momentum_range(start=0.0, end=0.9, steps=20, seeds=2)
    assert [sweep.losses[0] for sweep in result.sweeps] == [0.0, 0.0]
    assert result.steps == 80
    assert any("relative to that of the same batches" in note for note in result.notes)


@pytest.mark.parametrize("step", [0, 3, 30])
def test_momentum_range_control_run_with_nan_loss_ends_sweep(step: int) -> None:
    setup, calls = sgd_ring_classifier(lr=0.1), []

    def step_fn(batch: Any) -> Tensor:
        calls.append(1)
        loss = nn.functional.cross_entropy(setup.model(batch[0]), batch[1])
        return loss * math.nan if len(calls) == step + 1 else loss

    setup.step_fn = step_fn
    result = Debugger.of(setup).momentum_range(steps=40, seeds=1)
    assert result.sweeps[0].ended == "not finite"
    assert result.suggestion is None
    assert str(result)
