"""Tests of the time budget: which steps are measured, and what every step records."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.hooks.training_events import StepVisibility
from nbdebug.loop_monitor.inspection_plan import FULLY_TRACKED_STEPS
from nbdebug.loop_monitor.summary import summarize_loop
from nbdebug.tensors.sampling import TensorSampler
from nbdebug.watching.optimizer_steps import ALWAYS_COMPARED_STEPS, COMPARISON_INTERVAL, LayerSnapshot
from nbdebug.watching.time_budget import ALWAYS_MEASURED_STEPS, Throttle
from nbdebug.watching.watch import Watch
from tests.clock import CLOCK
from tests.watching.budgets import TINY_BUDGET, without_enforcement
from tests.watching.points import labeled_points

STEPS = 4 * ALWAYS_MEASURED_STEPS
WARMUP_STEPS = 400


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 2))


def loader(count: int = 32) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*labeled_points(count, seed=1)), batch_size=8)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()


def train_watched(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS) -> int:
    """Train under a watch; return the number of steps whose events were not tracked."""
    train, untracked = loader(), 0
    with watch:
        assert watch.session is not None
        for number in range(steps):
            untracked += watch.time_budget.visibility is not StepVisibility.ALL_EVENTS
            step(model, optimizer, list(train)[number % len(train)])
    assert watch.result is not None
    assert not watch.result.errors
    return untracked


def test_throttle_limits_work_to_its_share_of_the_time() -> None:
    throttle, now, spent = Throttle(0.01), 0.0, 0.0
    for _ in range(100_000):
        now += 1e-3
        if now >= throttle.next_time:
            throttle.record(2e-3, now)
            spent += 2e-3
    assert spent / now == pytest.approx(0.01, rel=0.02)


def overhead(watch: Watch, seconds: float = 0.02) -> float:
    """Return the overhead after the first steps, which are measured whatever the cost; ``seconds`` is per step."""
    (optimizer,), train = watch.setup.optimizers, list(loader())
    with watch:
        for number in range(1600):
            if number == WARMUP_STEPS:
                before = watch.time_budget.spent_seconds, watch.time_budget.elapsed
            CLOCK.advance(seconds)
            step(watch.setup.model, optimizer, train[number % len(train)])
    return (watch.time_budget.spent_seconds - before[0]) / (watch.time_budget.elapsed - before[1])


def make_watch(budget: float) -> Watch:
    model = network()
    return nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), budget=budget)


@pytest.fixture
def _slow_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    add_output = LayerSnapshot.add_output

    def slow_add_output(*args: Any) -> None:
        CLOCK.advance(0.005)
        add_output(*args)

    monkeypatch.setattr(LayerSnapshot, "add_output", slow_add_output)


@pytest.mark.usefixtures("_slow_snapshots")
def test_unenforced_budget_includes_what_every_step_records() -> None:
    base = overhead(without_enforcement(make_watch(TINY_BUDGET)))  # of what every step records
    assert 0.01 < base < 0.02
    assert base + 0.002 < overhead(without_enforcement(make_watch(0.02))) <= 0.02
    assert base < overhead(without_enforcement(make_watch(0.01))) < base + 0.0025  # a quarter of 1 % is for snapshots


@pytest.mark.usefixtures("_slow_snapshots")
@pytest.mark.parametrize("budget", [0.03, 0.02, 0.01])
def test_enforced_budget_is_kept_and_every_loss_recorded(budget: float) -> None:
    watch = make_watch(budget)
    assert budget / 2 < overhead(watch, 0.05) <= budget
    assert watch.record.series("loss")[0].tolist() == list(range(1, 1601))
    assert watch.result is not None
    loss_only_steps = watch.result.loss_only_steps
    assert 0 < loss_only_steps < 1600 - ALWAYS_MEASURED_STEPS
    assert f"for {loss_only_steps:,} steps only the loss was recorded, to stay within budget" in str(watch.result)


def test_default_budget_has_no_loss_only_steps() -> None:
    model = network()
    watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1))
    assert overhead(watch, 0.001) > 0.05
    assert watch.time_budget.loss_only_steps == 0
    assert "to stay within budget" not in str(watch.result)


def test_unenforced_budget_records_every_loss_and_tracks_events_of_some_steps() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watch = without_enforcement(nbdebug.watch(model, optimizer, budget=TINY_BUDGET))
    untracked = train_watched(watch, model, optimizer)
    assert STEPS / 2 < untracked < STEPS - FULLY_TRACKED_STEPS
    for signal in ("loss", "lr", "step_seconds"):
        assert watch.record.series(signal)[0].tolist() == list(range(1, STEPS + 1))
    assert watch.record.series("gradient_norm")[0].tolist()[:ALWAYS_MEASURED_STEPS] == list(
        range(1, ALWAYS_MEASURED_STEPS + 1)
    )
    assert watch.session is not None
    loop = summarize_loop(watch.session.loop_monitor, ())
    assert (loop.steps, loop.backward_passes, loop.tracked_steps) == (STEPS, STEPS, STEPS - untracked)
    assert loop.checked_intervals == loop.tracked_steps - 1
    assert not loop.uncleared_intervals


def test_validation_between_untracked_steps_is_counted() -> None:
    model, val = network(), loader(16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debugger = nbdebug.Debugger(model, loader(), val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    evaluations = 0
    with without_enforcement(debugger.watch(budget=TINY_BUDGET)) as watch:
        assert watch.session is not None
        for number in range(STEPS):
            step(model, optimizer, next(iter(debugger.train_loader)))
            if watch.time_budget.visibility is not StepVisibility.ALL_EVENTS and number % 20 < 8:
                evaluations += 1
                with torch.no_grad():
                    for x, _ in val:
                        model(x)
    passes = summarize_loop(watch.session.loop_monitor, ()).forward_passes
    assert evaluations > 10
    assert passes.validation_passes == passes.validation_in_train_mode == 2 * evaluations


def test_alternating_optimizers_are_tracked_at_every_step() -> None:
    model = network()
    optimizers = [torch.optim.SGD(model[i].parameters(), 0.1) for i in (0, 2)]
    train = list(loader())
    debugger = nbdebug.Debugger(model, train, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizers)
    with without_enforcement(debugger.watch(budget=TINY_BUDGET)) as watch:
        for number in range(2 * ALWAYS_MEASURED_STEPS):
            for optimizer in optimizers:
                step(model, optimizer, train[number % len(train)])
    assert watch.session is not None
    loop = summarize_loop(watch.session.loop_monitor, ())
    assert loop.tracked_steps == loop.steps == 4 * ALWAYS_MEASURED_STEPS


def test_o506_fires_when_gradients_are_cleared_before_untracked_steps() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debugger = nbdebug.Debugger(model, loader(), loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    with without_enforcement(debugger.watch(budget=TINY_BUDGET)):
        for _ in range(STEPS // 4):
            for x, y in debugger.train_loader:
                debugger.setup.loss_fn(model(x), y).backward()
                optimizer.zero_grad()
                optimizer.step()
    assert "O506" in [finding.code for finding in debugger.findings]


def test_every_1_takes_a_snapshot_per_step_and_tracks_events_of_some_steps() -> None:
    model = network()
    watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1)
    assert train_watched(watch, model, watch.setup.optimizers[0]) > STEPS / 2
    assert watch.session is not None
    loop = summarize_loop(watch.session.loop_monitor, ())
    assert loop.steps == STEPS
    assert watch.record.layers.rows == STEPS


def test_every_1_in_a_long_run_skips_snapshots_that_thinning_would_drop() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watch = nbdebug.watch(model, optimizer, every=1)
    train_watched(watch, model, optimizer, steps=1100)
    layers, shapes = watch.record.layers, watch.record.shapes
    assert layers.stride == 4
    assert layers.steps.tolist() == list(range(1, 1101, 4))
    assert shapes.steps == list(range(1, 1101, shapes.stride))


def test_update_norm_excludes_weight_changes_between_steps() -> None:
    model = network()
    optimizer, initial_model = torch.optim.SGD(model.parameters(), 0.1), copy.deepcopy(model)
    batch, distances = next(iter(loader())), []
    with nbdebug.watch(model, optimizer, every=1) as watch:
        for _ in range(2 * ALWAYS_COMPARED_STEPS):
            before = model[0].weight.detach().clone()
            step(model, optimizer, batch)
            distances.append(float((model[0].weight.detach() - before).norm()))
            for parameter, initial in zip(model.parameters(), initial_model.parameters(), strict=True):
                parameter.data.lerp_(initial.data, 0.5)
    assert watch.record.series("update.norm", "0.weight")[1] == pytest.approx(distances, rel=1e-3)


def test_weights_unchanged_between_steps_are_gathered_once_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    is_weight: list[bool] = []
    gather = TensorSampler.gather

    def counting_gather(self: TensorSampler, tensors: Any) -> Any:
        is_weight.append(tensors[0] is model[0].weight)
        return gather(self, tensors)

    monkeypatch.setattr(TensorSampler, "gather", counting_gather)
    model = network()
    watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1)
    train_watched(watch, model, watch.setup.optimizers[0], steps=4 * ALWAYS_COMPARED_STEPS)
    snapshots = 4 * ALWAYS_COMPARED_STEPS
    compared = ALWAYS_COMPARED_STEPS + (snapshots - ALWAYS_COMPARED_STEPS) // COMPARISON_INTERVAL
    assert sum(is_weight) == snapshots + compared
    assert (watch.record.series("update.norm", "0.weight")[1] > 0).all()


@pytest.mark.parametrize("signal", ["weight.norm", "gradient.norm", "update.norm"])
def test_signals_fetched_at_the_end_equal_those_fetched_at_every_step(
    signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = []
    for seconds in (0.0, 3600.0):  # fetched after every step, and all at the end
        monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", seconds)
        monkeypatch.setattr("nbdebug.watching.step_recorder.FETCH_SECONDS", seconds)
        torch.manual_seed(0)
        model = network()
        watch = nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1)
        train_watched(watch, model, watch.setup.optimizers[0], steps=STEPS)
        series.append(watch.record.series(signal, "0.weight"))
    assert series[0][0].tolist() == series[1][0].tolist() == list(range(1, STEPS + 1))
    assert series[0][1].tolist() == series[1][1].tolist()


def test_first_weight_change_between_steps_drops_one_snapshot_of_update_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", 3600.0)
    model, first_write = network(), ALWAYS_MEASURED_STEPS + 5
    optimizer, batch, distances = torch.optim.SGD(model.parameters(), 0.1), next(iter(loader())), []
    with nbdebug.watch(model, optimizer, every=1) as watch:
        for number in range(1, STEPS + 1):
            before = model[0].weight.detach().clone()
            step(model, optimizer, batch)
            distances.append(float((model[0].weight.detach() - before).norm()))
            if number >= first_write:
                with torch.no_grad():
                    model[0].weight.mul_(0.9)
    steps, norms = watch.record.series("update.norm", "0.weight")
    assert sorted({*range(1, STEPS + 1)} - set(steps.tolist())) == [first_write]
    assert norms == pytest.approx([distances[step - 1] for step in steps], rel=1e-3)


def test_nothing_runs_while_a_graph_is_captured_and_the_record_says_so() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nbdebug.watch(model, optimizer, every=1) as watch:
        assert watch.session is not None
        for number, batch in enumerate(list(loader()) * 3):
            watch.time_budget.is_capturing = lambda is_captured=number in (4, 5): is_captured  # type: ignore[misc]
            step(model, optimizer, batch)
    assert not watch.error_summary
    assert len(watch.record.series("loss")[0]) == 10
    assert [event.step for event in watch.record.events_of_kind("captured")]
