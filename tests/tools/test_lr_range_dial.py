"""What is set at each step: of groups, of several optimizers, under a schedule, and of other quantities."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange


def lr_range(setup: Setup, **asked: Any) -> LrRange:
    """The range test of a set-up."""
    return Debugger.of(setup).lr_range(**asked)


def learner(**given: Any) -> Setup:
    """A classifier that has much to learn."""
    return training_setup(mlp(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss(), **given)


def usual(found: LrRange) -> bool:
    """Whether a sweep went through, and its loss came down."""
    return all(one.ended in ("finished", "diverged") and min(one.smooth) < one.smooth[0] for one in found.sweeps)


def with_rates_seen(setup: Setup, **asked: Any) -> tuple[LrRange, list[list[float]]]:
    """A result, and the rates of all groups at each step of the first optimizer."""
    seen: list[list[float]] = []

    def note(optimizer: Any, *_: Any) -> None:
        seen.append([float(group["lr"]) for one in setup.optimizers for group in one.param_groups])

    handle = setup.optimizers[0].register_step_pre_hook(note)
    found = lr_range(setup, **asked)
    handle.remove()
    return found, seen


@pytest.mark.parametrize("mode", ["exp", "linear"])
def test_the_values_run_from_start_to_end(mode: Any) -> None:
    found, seen = with_rates_seen(learner(), start=1e-4, end=1e-2, steps=10, seeds=1, mode=mode)
    assert [one[0] for one in seen] == pytest.approx(found.sweeps[0].values)
    assert found.sweeps[0].values[0] == pytest.approx(1e-4)
    assert found.sweeps[0].values[-1] == pytest.approx(1e-2)
    steps = [b / a if mode == "exp" else b - a for (a,), (b,) in pairwise(seen)]
    assert steps == pytest.approx([steps[0]] * 9)


def two_groups(**second: Any) -> Setup:
    """Two groups, the second with settings of its own."""
    model = mlp(8, 32, 2)
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), **second}]
    return training_setup(model, rings(), rings(), nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(groups, lr=0.1))


def test_groups_keep_their_ratios_or_get_the_same() -> None:
    _, seen = with_rates_seen(two_groups(lr=0.02), start=1e-4, end=1e-2, steps=10, seeds=1)
    assert [b / a for a, b in seen] == pytest.approx([0.2] * 10)
    _, seen = with_rates_seen(two_groups(lr=0.02), start=1e-4, end=1e-2, steps=10, seeds=1, groups="same")
    assert [b / a for a, b in seen] == pytest.approx([1.0] * 10)


def test_a_group_at_rate_zero_stays_there_and_does_not_count_as_the_first() -> None:
    setup = two_groups()
    setup.optimizers[0].param_groups[0]["lr"] = 0.0
    found, seen = with_rates_seen(setup, start=1e-4, end=1e-2, steps=10, seeds=1)
    assert {a for a, _ in seen} == {0.0}
    assert [b for _, b in seen] == pytest.approx(found.sweeps[0].values)
    assert found.current == 0.1


def test_several_optimizers_are_swept_together() -> None:
    setup = learner()
    body, head = setup.model[0], setup.model[2]
    setup.optimizers = (torch.optim.SGD(body.parameters(), 0.1), torch.optim.Adam(head.parameters(), 1e-3))
    found, seen = with_rates_seen(setup, seeds=1)
    assert [b / a for a, b in seen] == pytest.approx([0.01] * len(seen))
    assert usual(found)


def test_a_rate_that_is_a_tensor_stays_the_same_tensor() -> None:
    setup = learner()
    rate = torch.tensor(1e-3)
    setup.optimizers = (torch.optim.Adam(setup.model.parameters(), lr=rate),)
    assert usual(lr_range(setup, seeds=1))
    assert setup.optimizers[0].param_groups[0]["lr"] is rate
    assert rate == torch.tensor(1e-3)


def test_a_schedule_is_not_stepped_and_its_highest_rate_counts_as_present() -> None:
    setup = learner(lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(setup.optimizers[0], max_lr=0.5, total_steps=10)
    setup.scheduler = schedule
    found = lr_range(setup, seeds=1, steps=20)
    assert found.current == 0.5
    assert schedule.last_epoch == 0
    assert any("schedule is not stepped" in one for one in found.notes)


def test_momentum_and_weight_decay_are_swept_at_the_present_rate() -> None:
    setup = learner(optimizer=None)
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4),)
    seen: list[tuple[float, float, float]] = []
    setup.optimizers[0].register_step_pre_hook(
        lambda one, *_: seen.append(tuple(one.param_groups[0][name] for name in ("lr", "momentum", "weight_decay")))
    )
    momentum = Debugger.of(setup).momentum_range(steps=10, seeds=1)
    assert [one[1] for one in seen] == pytest.approx([0.9] * 10 + [*momentum.sweeps[0].values])
    assert {(one[0], one[2]) for one in seen} == {(0.1, 1e-4)}
    seen.clear()
    decay = Debugger.of(setup).weight_decay_range(steps=10, seeds=1)
    assert [one[2] for one in seen] == pytest.approx([1e-4] * 10 + [*decay.sweeps[0].values])
    assert {one[:2] for one in seen} == {(0.1, 0.9)}
    assert (momentum.current, decay.current) == (0.9, 1e-4)


def test_the_first_beta_is_the_momentum_of_adam() -> None:
    setup = learner()
    seen: list[Any] = []
    setup.optimizers[0].register_step_pre_hook(lambda one, *_: seen.append(one.param_groups[0]["betas"]))
    found = Debugger.of(setup).momentum_range(steps=10, seeds=1)
    assert [one[0] for one in seen] == pytest.approx([0.9] * 10 + [*found.sweeps[0].values])
    assert {one[1] for one in seen} == {0.999}
    assert found.current == 0.9
