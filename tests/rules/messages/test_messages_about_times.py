"""Tests that the times in the messages about speed are those of the program, on a clock that the test sets.

Sleeping, a forward pass and a copy advance the clock by a known time. The CPU and the meta device take the place of an
accelerator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.hooks.device_syncs import SyncCall, observe_device_syncs
from nbdebug.hooks.training_events import observe_batches, observe_matching_steps
from nbdebug.loop_monitor import LoopMonitor
from nbdebug.loop_monitor.summary import summarize_loop
from nbdebug.rules.throughput import input_bound
from nbdebug.rules.throughput.slow_transfer import slow_transfer
from nbdebug.rules.throughput.sync_every_step import sync_every_step
from nbdebug.setup import Setup
from nbdebug.tools.profile import Profile, clocks
from nbdebug.tools.profile.loops import run_standard_loop
from nbdebug.tools.profile.phases import LoopTimer, StepTime
from nbdebug.tools.profile.tool import _Profiler
from tests.clock import CLOCK
from tests.rules.messages.program import Fact, Program, compare_numbers, near

STEPS = 5
REPEATED = ("forward", "loss", "backward", "optimizer")


class ProfiledProgram(Program):
    """A faulty program after a profile; each forward pass takes some seconds, whatever the batch."""

    batch_size, threads = 16, 1

    def forward_seconds(self) -> float:
        return 0.01

    def new_setup(self) -> Setup:
        setup = super().new_setup()
        setup.train_loader = DataLoader(self.get_dataset(setup.train_loader.dataset), self.batch_size)
        return setup

    def get_dataset(self, dataset: Any) -> Any:
        return dataset

    @cached_property
    def profile(self) -> Profile:
        setup, present = self.new_setup(), torch.get_num_threads()
        setup.model.get_submodule("0").register_forward_pre_hook(lambda *_: CLOCK.advance(self.forward_seconds()))
        torch.set_num_threads(self.threads)
        try:
            return Debugger.of(setup).profile(steps=STEPS)
        finally:
            torch.set_num_threads(present)

    @cached_property
    def findings(self) -> list[Finding]:
        arguments = {"setup": self.setup, "profile": self.profile}
        return list(self.rule.function(*(arguments[name] for name in self.rule.needs)))


class Stream(IterableDataset[Any]):
    """The samples of a dataset, in their order."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return (self.dataset[index] for index in range(len(self.dataset)))


class SlowSamples(ProfiledProgram):
    """No numbers of workers are tried, whose clocks are their own."""

    def get_dataset(self, dataset: Any) -> Any:
        return Stream(dataset)


class SmallBatches(ProfiledProgram):
    """Batches of two samples, as the rule has them."""

    batch_size = 2


class ManyThreads(ProfiledProgram):
    """Each thread of an operation waits for the others."""

    threads = 4

    def forward_seconds(self) -> float:
        return 0.01 * torch.get_num_threads()


class CopiedBatches(Program):
    """A model on the meta device, to which each copy of a tensor takes some seconds."""

    copy_seconds = 0.02

    @cached_property
    def steps(self) -> Sequence[StepTime]:
        return self.timer.step_times()

    @cached_property
    def timer(self) -> LoopTimer:
        setup = self.new_setup()
        setup.model.to("meta")
        return LoopTimer(setup, STEPS, 60.0)

    @cached_property
    def findings(self) -> list[Finding]:
        to = Tensor.to

        def copy(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            CLOCK.advance(self.copy_seconds)
            return to(tensor, *args, **kwargs)

        setup = self.timer.setup
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Tensor, "to", copy)
            batches = run_standard_loop(setup, self.timer)
        profile = _Profiler(setup, None, STEPS)._describe_loop(self.timer, self.timer, batches)
        return list(slow_transfer(setup, profile, device="meta"))


class FetchedValues(Program):
    """A loop on the CPU that fetches three values from it at two lines of each step, and others in its validation."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.calls: list[SyncCall] = []
        self.calls_in_training: list[SyncCall] = []
        self.steps = 0

    @cached_property
    def findings(self) -> list[Finding]:
        setup, optimizer = self.setup, self.setup.optimizers[0]
        setup.val_loader = DataLoader(setup.train_loader.dataset, 16)
        monitor = LoopMonitor(setup)

        def on_sync(call: SyncCall) -> None:
            self.calls.append(call)
            monitor.on_device_sync(call)

        stepping = observe_matching_steps(monitor.accepts_optimizer, monitor.on_step_begin, monitor.on_step_end)
        with stepping, observe_batches(monitor.on_batch), observe_device_syncs("cpu", on_sync):
            for x, y in [*setup.train_loader] * 2:
                optimizer.zero_grad()
                loss = setup.loss_fn(setup.model(x), y)  # type: ignore[misc]
                print(loss.item(), float(loss.detach()))
                loss.backward()
                print(loss.tolist())
                optimizer.step()
                self.steps += 1
            self.calls_in_training = [*self.calls]
            for x, y in setup.val_loader:
                print(setup.loss_fn(setup.model(x), y).item())  # type: ignore[misc]
        return list(sync_every_step(setup, summarize_loop(monitor, []), device="cpu"))


def phase_seconds(steps: Sequence[StepTime], phase: str) -> float:
    """Return the median of what each step repeats, and the mean of what some steps do."""
    return (median if phase in REPEATED else fmean)([step.phases[phase] for step in steps])


def step_seconds(steps: Sequence[StepTime]) -> float:
    return sum(phase_seconds(steps, phase) for phase in steps[0].phases)


def wait_for_data(program: SlowSamples) -> list[Fact]:
    wait = phase_seconds(program.profile.steps, "data")
    assert wait == pytest.approx(1e-3 * len(program.batch[1]), rel=0.02)  # a millisecond for each sample
    return [1e3 * wait, wait / step_seconds(program.profile.steps)]


def gain_of_larger_batches(program: ProfiledProgram) -> list[Fact]:
    size = program.batch[0].shape[0]
    largest = max(trial.size for trial in program.profile.trials if trial.group == "batch size")
    return [size, near(largest / size, 0.05)]


def gain_of_fewer_threads(program: ProfiledProgram) -> list[Fact]:
    return [near(program.threads, 0.05), 1, program.threads, (1, len(os.sched_getaffinity(0)))]


def copies(program: CopiedBatches) -> list[Fact]:
    size = sum(part.numel() * part.element_size() for part in program.batch)
    assert program.findings
    copy = phase_seconds(program.steps, "transfer")
    assert copy == pytest.approx(program.copy_seconds * len(program.batch), rel=0.02)
    return [size / 2**20, 1e3 * copy, copy / step_seconds(program.steps), 0]


def fetches(program: FetchedValues) -> list[Fact]:
    assert len(program.calls) > len(program.calls_in_training) == 3 * program.steps
    return [3, 2, 1e3 * sum(seconds for _, seconds in program.calls_in_training) / program.steps]


FACTS: dict[str, tuple[type[Program], Callable[[Any], list[Fact]]]] = {
    "P801": (SlowSamples, wait_for_data),
    "P802": (SmallBatches, gain_of_larger_batches),
    "P803": (FetchedValues, fetches),
    "P805": (CopiedBatches, copies),
    "P808": (ManyThreads, gain_of_fewer_threads),
}


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_messages_about_times_are_facts(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_bound, "time", SimpleNamespace(sleep=CLOCK.advance))
    monkeypatch.setattr(clocks, "_waited_seconds", lambda: 0.0)  # real seconds, which the clock of the tests has not
    kind, facts = FACTS[code]
    compare_numbers(kind(code), facts)
