"""Tests of the gain that the loop itself shows with an advised change: lines, loaders, settings; all restored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.exceptions import NotChecked
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.tools.profile.diagnosis import Facts
from nbdebug.tools.profile.loops import preserve_loop, run_user_loop
from nbdebug.tools.profile.measured_gain import measure_gain
from nbdebug.tools.profile.operations import OperationTotals
from nbdebug.tools.profile.phases import WARMUP_STEPS, LoopTimer
from nbdebug.tools.profile.rare_statements import skip_statement
from nbdebug.tools.profile.result import Profile
from nbdebug.tools.profile.switched_changes import Switch, SwitchedChange, switched_change
from nbdebug.tools.profile.time_profile import Advice, SpeedTrial

from .programs import BATCH, FEATURES, SleepingDataset, make_setup

STEPS = 12  # blocks of 4
MOST_TURNS = 20  # between blocks; six rounds have twelve


class Stream(IterableDataset[Any]):
    """Samples that take some time and come in order."""

    def __iter__(self) -> Any:
        for number in range(10_000):
            time.sleep(0.002)
            yield {"x": torch.randn(FEATURES), "y": torch.tensor(number % 2)}


def train_with(setup: Setup, calls: list[int]) -> Callable[[], None]:
    """A loop with a slow line, a slow loop and a slow line that assigns."""

    def train() -> None:
        step = 0
        while True:
            for batch in setup.train_loader:
                setup.optimizers[0].zero_grad()
                loss = setup.loss_fn(setup.model(batch[0]), batch[1])
                loss.backward()
                setup.optimizers[0].step()
                for _ in range(2):
                    time.sleep(0.003)  # in a loop
                value = slow_value(loss, calls)  # that assigns
                calls.append(int(value) + step)
                step += 1

    return train


def slow_value(loss: Tensor, calls: list[int]) -> float:
    """Return zero after some time."""
    time.sleep(0.006)
    calls.append(-1)
    return 0.0 * float(loss.detach())


def number_of(text: str) -> int:
    """The number of the only line of this file that ends with a comment."""
    with open(__file__, encoding="utf-8") as file:
        (number,) = [number for number, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}")]
    return number


def facts_of(setup: Setup, train: Callable[[], Any]) -> Facts:
    timer = LoopTimer(setup, 2, 10.0)
    with preserve_loop(setup, train):
        run_user_loop(train, timer)
    return Facts(setup, OperationTotals(), step_codes=timer.step_codes, step_lines=timer.step_lines)


def measure(setup: Setup, advice: Advice, train: Any = None, profile: Profile | None = None) -> Advice:
    """The advice with its measured gain, within a Preserve, as the tool measures it."""
    facts = facts_of(setup, train) if train else Facts(setup, OperationTotals())
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        change = switched_change(setup, profile or Profile("", (), batch_size=BATCH), advice, facts)
        assert change is not None
        return measure_gain(setup, train, advice, change, STEPS)


@pytest.mark.parametrize("text", ["in a loop", "that assigns"])
def test_line_is_skipped_and_everything_is_as_before(text: str) -> None:
    setup, calls = make_setup(), list[int]()
    train = train_with(setup, calls)
    code, names, weights = train.__code__, {*globals()}, [p.clone() for p in setup.model.parameters()]
    result = measure(setup, Advice("line", 2.0, "", "", "", line=SourceLine(__file__, number_of(text), "train")), train)
    assert result.is_measured
    assert result.low <= result.gain <= result.high
    assert 1.2 < result.gain < 3  # about half of the waits
    assert (train.__code__, {*globals()}, calls) == (code, names, [])
    assert all(torch.equal(a, b) for a, b in zip(weights, setup.model.parameters(), strict=True))


def test_line_that_grows_runs_in_the_steps_of_the_profile_and_no_others(tmp_path: Path) -> None:
    setup, file = make_setup(), tmp_path / "steps"

    def train() -> None:
        for step, (x, y) in enumerate(cycle(setup.train_loader)):
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
            write(file, step)  # that grows

    line = SourceLine(__file__, number_of("that grows"), "train")
    assert measure(setup, Advice("growing", 2.0, "", "", "", line), train).is_measured
    steps = [*map(int, file.read_text().split())]
    assert steps[steps.index(0, 1) :] == [*range(WARMUP_STEPS + STEPS - 1)]  # after the run that finds the line


@pytest.mark.parametrize("scatters", [False, True])
def test_more_rounds_are_run_where_they_scatter(scatters: bool) -> None:
    setup, seconds, turns, all_turns = make_setup(), [0.02], list[bool](), list[bool]()

    def turn(is_on: bool) -> None:
        turns.append(is_on)
        all_turns.append(is_on)  # is not restored, since the loop does not read it
        factor = 4 if scatters and len(turns) % 4 == 1 else 1
        seconds[0] = 0.01 * factor if is_on else 0.02

    @contextmanager
    def install(switch: Switch) -> Iterator[None]:
        switch.on_change.append(turn)
        yield

    def train() -> None:
        for x, y in cycle(setup.train_loader):
            if len(turns) > MOST_TURNS:
                return
            time.sleep(seconds[0])
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()

    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        measure_gain(setup, train, Advice("line", 2.0, "", "", ""), SwitchedChange(install), STEPS)
    assert (len(all_turns) > MOST_TURNS) == scatters


def write(file: Path, step: int) -> None:
    """Append the number of a step to a file, which no profile restores."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(f"{step} ")


@pytest.mark.parametrize("is_stream", [False, True])
def test_slow_samples_are_replaced_by_samples_in_memory(is_stream: bool) -> None:
    setup = make_setup(0.002)
    if is_stream:
        setup.train_loader = DataLoader(Stream(), batch_size=BATCH)
        setup.unpack = lambda batch: (batch["x"], batch["y"])
    before = dict(vars(setup.train_loader))
    result = measure(setup, Advice("data", 2.0, "", "", "# cache"))
    assert result.gain > 5
    assert vars(setup.train_loader) == before


def test_larger_batches_gain_samples_per_second() -> None:
    setup = make_setup()
    trial = SpeedTrial("batch size", "32", size=32, code="batch_size=32")
    advice = Advice("batch size", 2.0, "", "", trial.code)
    assert measure(setup, advice, profile=Profile("", (), batch_size=BATCH, trials=(trial,))).gain > 1.5


@pytest.mark.parametrize("is_inner", [False, True])
def test_anomaly_mode_is_switched_off_where_the_loop_switches_it_on(is_inner: bool) -> None:
    setup = make_setup()
    trial = SpeedTrial("settings", "anomaly mode off", code="set_detect_anomaly(False)")

    def anomaly_mode(is_here: bool) -> Any:
        return torch.autograd.set_detect_anomaly(True) if is_here else nullcontext()

    def train() -> None:
        with anomaly_mode(not is_inner):
            for x, y in cycle(setup.train_loader):
                with anomaly_mode(is_inner):
                    if torch.is_anomaly_enabled():
                        time.sleep(0.004)
                    setup.loss_fn(setup.model(x), y).backward()
                setup.optimizers[0].step()

    original, before = torch.set_anomaly_enabled, torch.is_anomaly_enabled()
    profile = Profile("", (), batch_size=BATCH, trials=(trial,))
    assert measure(setup, Advice("settings", 2.0, "", "", trial.code), train, profile).gain > 1.5
    assert (torch.set_anomaly_enabled, torch.is_anomaly_enabled()) == (original, before)


def test_restarted_loader_is_continued() -> None:
    class SlowStart(SleepingDataset):
        def __len__(self) -> int:
            time.sleep(0.01)  # as a sampler that reads an index
            return super().__len__()

    setup = make_setup()
    setup.train_loader = DataLoader(SlowStart(), batch_size=BATCH, shuffle=True)

    def train() -> None:
        while True:
            x, y = next(iter(setup.train_loader))
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()

    original = DataLoader.__iter__
    assert measure(setup, Advice("data", 2.0, "", "", "batches = iter(train_loader)"), train).gain > 1.3
    assert DataLoader.__iter__ is original


@pytest.mark.parametrize(("number", "reason"), [(1, "contains the step"), (2, "leaves the loop")])
def test_line_that_cannot_be_skipped_is_refused(number: int, reason: str) -> None:
    setup = make_setup()

    def train() -> None:
        step = 0
        while True:
            for x, y in setup.train_loader:
                setup.loss_fn(setup.model(x), y).backward()
                setup.optimizers[0].step()  # place 1
                step += 1
                if step > 50:
                    break  # place 2

    facts = facts_of(setup, train)
    line = SourceLine(__file__, number_of(f"place {number}"), "train")
    skip = skip_statement(line, facts.step_codes, facts.step_lines, lambda: True)
    with pytest.raises(NotChecked, match=reason), skip:
        pass


def test_loop_that_ends_early_leaves_the_estimate() -> None:
    setup, calls = make_setup(), list[int]()

    def train() -> None:
        for step, (x, y) in enumerate([*setup.train_loader] * 2):
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
            calls.append(step)  # short

    advice = Advice("line", 2.0, "", "", "", line=SourceLine(__file__, number_of("short"), "train"))
    with pytest.raises(NotChecked, match="ends before"):
        measure(setup, advice, train)
