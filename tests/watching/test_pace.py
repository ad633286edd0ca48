"""What is left out of some steps, and what is heard of every one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.hooks.training_events import StepVisibility
from nbdebug.tensors.sampling import TensorSampler
from nbdebug.watching.optimizer_steps import ALWAYS_COMPARED_STEPS, COMPARISON_INTERVAL, LayerSnapshot
from nbdebug.watching.time_budget import ALWAYS_MEASURED_STEPS, Throttle
from nbdebug.watching.watch import Watch
from tests.clock import CLOCK
from tests.watching.rhythms import TINY, seldom

STEPS = 4 * ALWAYS_MEASURED_STEPS
FIRST = 400


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 2))


def loader(count: int = 32) -> DataLoader[Any]:
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=8)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()


def trained(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS) -> int:
    """Trains under a watch, and gives how many of the steps were not followed."""
    train, rested = loader(), 0
    with watch:
        assert watch.session is not None
        for number in range(steps):
            rested += watch.time_budget.visibility is not StepVisibility.ALL_EVENTS
            step(model, optimizer, list(train)[number % len(train)])
    assert watch.result is not None
    assert not watch.result.errors
    return rested


def test_a_pace_takes_its_share_of_the_time() -> None:
    pace, now, spent = Throttle(0.01), 0.0, 0.0
    for _ in range(100_000):
        now += 1e-3
        if now >= pace.next_time:
            pace.record(2e-3, now)
            spent += 2e-3
    assert spent / now == pytest.approx(0.01, rel=0.02)


def share(watch: Watch, seconds: float = 0.02) -> float:
    """What watching takes of steps of 20 ms, after the first ones, which are looked at often whatever it takes."""
    (optimizer,), train = watch.setup.optimizers, list(loader())
    with watch:
        for number in range(1600):
            if number == FIRST:
                before = watch.time_budget.spent_seconds, watch.time_budget.elapsed
            CLOCK.passes(seconds)
            step(watch.setup.model, optimizer, train[number % len(train)])
    return (watch.time_budget.spent_seconds - before[0]) / (watch.time_budget.elapsed - before[1])


def watch_of(budget: float) -> Watch:
    """A watch of a network and its optimizer."""
    model = network()
    return nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), budget=budget)


@pytest.fixture
def _looks_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    take = LayerSnapshot.add_output

    def slow(*given: Any) -> None:
        CLOCK.passes(0.005)
        take(*given)

    monkeypatch.setattr(LayerSnapshot, "add_output", slow)


@pytest.mark.usefixtures("_looks_take_long")
def test_what_is_heard_of_each_step_counts_into_the_budget() -> None:
    heard = share(seldom(watch_of(TINY)))
    assert 0.01 < heard < 0.02
    assert heard + 0.002 < share(seldom(watch_of(0.02))) <= 0.02
    assert heard < share(seldom(watch_of(0.01))) < heard + 0.0025  # under what is heard: a quarter of it is for looks


@pytest.mark.usefixtures("_looks_take_long")
@pytest.mark.parametrize("budget", [0.03, 0.02, 0.01])
def test_a_budget_that_is_given_is_kept(budget: float) -> None:
    watch = watch_of(budget)
    assert budget / 2 < share(watch, 0.05) <= budget
    assert watch.record.series("loss")[0].tolist() == list(range(1, 1601))
    assert watch.result is not None
    left_out = watch.result.loss_only_steps
    assert 0 < left_out < 1600 - ALWAYS_MEASURED_STEPS
    assert f"for {left_out:,} steps only the loss was recorded, to stay within budget" in str(watch.result)


def test_without_a_budget_every_step_is_heard() -> None:
    model = network()
    watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1))
    assert share(watch, 0.001) > 0.05
    assert watch.time_budget.loss_only_steps == 0
    assert "for the budget" not in str(watch.result)


def test_of_every_step_the_loss_is_heard_and_of_some_all() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watch = seldom(nbdebug.watch(model, optimizer, budget=TINY))
    rested = trained(watch, model, optimizer)
    assert STEPS / 2 < rested < STEPS - ALWAYS_MEASURED_STEPS
    for signal in ("loss", "lr", "step_seconds"):
        assert watch.record.series(signal)[0].tolist() == list(range(1, STEPS + 1))
    assert watch.record.series("gradient_norm")[0].tolist()[:ALWAYS_MEASURED_STEPS] == list(
        range(1, ALWAYS_MEASURED_STEPS + 1)
    )
    assert watch.session is not None
    loop = watch.session.loop_monitor.summary(())
    assert (loop.steps, loop.backward_passes, loop.tracked_steps) == (STEPS, STEPS, STEPS - rested)
    assert loop.checked_intervals == loop.tracked_steps - 1
    assert not loop.uncleared_intervals


def test_an_evaluation_between_steps_that_are_not_followed_is_heard() -> None:
    model, val = network(), loader(16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debugger = nbdebug.Debugger(model, loader(), val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    evaluated = 0
    with seldom(debugger.watch(budget=TINY)) as watch:
        assert watch.session is not None
        for number in range(STEPS):
            step(model, optimizer, next(iter(debugger.train_loader)))
            if watch.time_budget.visibility is not StepVisibility.ALL_EVENTS and number % 20 < 8:
                evaluated += 1
                with torch.no_grad():
                    for x, _ in val:
                        model(x)
    passes = watch.session.loop_monitor.summary(()).forward_passes
    assert evaluated > 10
    assert passes.validation_passes == passes.validation_in_train_mode == 2 * evaluated


def test_where_optimizers_take_turns_every_step_is_followed() -> None:
    model = network()
    optimizers = [torch.optim.SGD(model[i].parameters(), 0.1) for i in (0, 2)]
    train = list(loader())
    debugger = nbdebug.Debugger(model, train, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizers)
    with seldom(debugger.watch(budget=TINY)) as watch:
        for number in range(2 * ALWAYS_MEASURED_STEPS):
            for one in optimizers:
                step(model, one, train[number % len(train)])
    assert watch.session is not None
    loop = watch.session.loop_monitor.summary(())
    assert loop.tracked_steps == loop.steps == 4 * ALWAYS_MEASURED_STEPS


def test_gradients_that_are_cleared_too_early_are_a_share_of_what_was_followed() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debugger = nbdebug.Debugger(model, loader(), loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    with seldom(debugger.watch(budget=TINY)):
        for _ in range(STEPS // 4):
            for x, y in debugger.train_loader:
                debugger.setup.loss_fn(model(x), y).backward()
                optimizer.zero_grad()
                optimizer.step()
    assert "O506" in [one.code for one in debugger.findings]


def test_looks_at_every_step_leave_the_order_of_events_to_its_own_rhythm() -> None:
    model = network()
    watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1)
    assert trained(watch, model, watch.setup.optimizers[0]) > STEPS / 2
    assert watch.session is not None
    loop = watch.session.loop_monitor.summary(())
    assert loop.steps == STEPS
    assert watch.record.layers.rows == STEPS


def test_looks_that_would_not_be_kept_are_not_made() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watch = nbdebug.watch(model, optimizer, every=1)
    trained(watch, model, optimizer, steps=1100)
    layers, shapes = watch.record.layers, watch.record.shapes
    assert layers.stride == 4
    assert layers.steps.tolist() == list(range(1, 1101, 4))
    assert shapes.steps == list(range(1, 1101, shapes.stride))


def test_an_update_is_what_the_step_did_and_not_what_was_written_between_steps() -> None:
    model = network()
    optimizer, average = torch.optim.SGD(model.parameters(), 0.1), copy.deepcopy(model)
    batch, moved = next(iter(loader())), []
    with nbdebug.watch(model, optimizer, every=1) as watch:
        for _ in range(2 * ALWAYS_COMPARED_STEPS):
            before = model[0].weight.detach().clone()
            step(model, optimizer, batch)
            moved.append(float((model[0].weight.detach() - before).norm()))
            for own, other in zip(model.parameters(), average.parameters(), strict=True):
                own.data.lerp_(other.data, 0.5)
    assert watch.record.series("update.norm", "0.weight")[1] == pytest.approx(moved, rel=1e-3)


def test_weights_that_nobody_writes_to_between_steps_are_gathered_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    weights: list[bool] = []
    gather = TensorSampler.gather

    def counted(self: TensorSampler, given: Any) -> Any:
        weights.append(given[0] is model[0].weight)
        return gather(self, given)

    monkeypatch.setattr(TensorSampler, "gather", counted)
    model = network()
    watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1)
    trained(watch, model, watch.setup.optimizers[0], steps=4 * ALWAYS_COMPARED_STEPS)
    looks = 4 * ALWAYS_COMPARED_STEPS
    compared = ALWAYS_COMPARED_STEPS + (looks - ALWAYS_COMPARED_STEPS) // COMPARISON_INTERVAL
    assert sum(weights) == looks + compared
    assert (watch.record.series("update.norm", "0.weight")[1] > 0).all()


@pytest.mark.parametrize("signal", ["weight.norm", "gradient.norm", "update.norm"])
def test_weights_that_wait_for_the_next_step_are_those_of_their_own(
    signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for seconds in (0.0, 3600.0):  # brought in after every step, and all at the end
        monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", seconds)
        monkeypatch.setattr("nbdebug.watching.step_recorder.FETCH_SECONDS", seconds)
        torch.manual_seed(0)
        model = network()
        watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1)
        trained(watch, model, watch.setup.optimizers[0], steps=STEPS)
        found.append(watch.record.series(signal, "0.weight"))
    assert found[0][0].tolist() == found[1][0].tolist() == list(range(1, STEPS + 1))
    assert found[0][1].tolist() == found[1][1].tolist()


def test_a_loop_that_begins_to_write_between_steps_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", 3600.0)
    model, late = network(), ALWAYS_MEASURED_STEPS + 5
    optimizer, batch, moved = torch.optim.SGD(model.parameters(), 0.1), next(iter(loader())), []
    with nbdebug.watch(model, optimizer, every=1) as watch:
        for at in range(1, STEPS + 1):
            before = model[0].weight.detach().clone()
            step(model, optimizer, batch)
            moved.append(float((model[0].weight.detach() - before).norm()))
            if at >= late:
                with torch.no_grad():
                    model[0].weight.mul_(0.9)
    steps, norms = watch.record.series("update.norm", "0.weight")
    assert sorted({*range(1, STEPS + 1)} - set(steps.tolist())) == [late]
    assert norms == pytest.approx([moved[at - 1] for at in steps], rel=1e-3)
