"""Entry point of the profile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.formatting import join_names
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.device_assertions import without_value_checks
from nbdebug.tools.batch_size.memory import CGROUP_PATH, release_memory, total_bytes
from nbdebug.tools.batch_size.search import TrainingStep, user_batch_size
from nbdebug.tools.profile.changes import ModelChanges
from nbdebug.tools.profile.diagnosis import Diagnosis, Facts, rank
from nbdebug.tools.profile.latency import measure_latencies
from nbdebug.tools.profile.line_calls import measure_line_calls
from nbdebug.tools.profile.line_sampler import LineSampler, sample_lines
from nbdebug.tools.profile.line_times import line_times
from nbdebug.tools.profile.loops import preserve_loop, run_standard_loop, run_user_loop, used_up_iterators
from nbdebug.tools.profile.measured_gain import measure_gain
from nbdebug.tools.profile.modules import measure_modules
from nbdebug.tools.profile.operations import measure_roofline
from nbdebug.tools.profile.phases import LoopTimer, call_loop
from nbdebug.tools.profile.result import Profile
from nbdebug.tools.profile.switched_changes import switched_change
from nbdebug.tools.profile.time_profile import MIN_GAIN, Advice, LineTime, SpeedTrial, milliseconds, typical_seconds
from nbdebug.tools.profile.trace import validate_trace_path, write_trace
from nbdebug.tools.profile.trials import (
    batch_size_candidates,
    free_loss_candidate,
    measure_candidates,
    plain_reading_seconds,
    present_candidate,
    reading_seconds,
    setting_candidates,
    thread_candidates,
)
from nbdebug.tools.profile.view import running_view
from nbdebug.tools.profile.worker_sweep import sweep_obstacle, sweep_pinning, sweep_workers
from nbdebug.training.model_copy import ensure_train_mode
from nbdebug.training.trainer import needs_closure
from nbdebug.validation import argument_error, validate_int
from nbdebug.views.late_screen import before_any_result
from nbdebug.views.live import LiveScreen, Screen, show_view

_MIN_DATA_SHARE = 0.1  # of the step time, from which numbers of workers and pinned memory are tried
_MIN_OPTIMIZER_SHARE = 0.15
_MAX_OVERHEAD = 0.03
_MAX_MEASURED_GAINS = 3
_LOOP_SECONDS, _TRIAL_SECONDS, _READING_SECONDS = 10.0, 8.0, 1.0


def profile(
    setup: Setup,
    train: Callable[[], Any] | None = None,
    *,
    steps: int = 30,
    try_changes: bool = False,
    trace: str | Path | None = None,
) -> Profile:
    """Measure where the time of a training step goes, and what each change would gain.

    ``train`` is a function that runs the user's own loop; it is stopped after ``steps`` steps, three more for the
    warm-up. Everything that it reads from variables is restored. ``trace`` is a file for a trace by torch.profiler.
    Raises SetupError for a setup that cannot run, for a ``train`` that is not callable, and for one that makes fewer
    than four steps; an exception of ``train`` is raised.
    """
    validate_int("steps", steps, 4)
    if train is not None and not callable(train):
        raise argument_error(
            "train", train, "a function without arguments that runs your loop", "Pass train, not train()"
        )
    trace_path = validate_trace_path(trace) if trace is not None else None
    started = time.perf_counter()
    profiler = _Profiler(setup, train, steps)
    with (
        without_value_checks(),
        Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)),
        show_view(running_view("starting")) as screen,
        before_any_result(screen, "Profile", running_view),
    ):
        ensure_train_mode(setup)
        result = profiler.run(screen, try_changes)
        if trace_path is not None:
            result = replace(result, notes=(*result.notes, write_trace(setup, train, trace_path)))
        result = replace(result, seconds=time.perf_counter() - started)
        screen.finish(result)
    return result


def _available_cores() -> int:
    """Return the cores that this process may use: by its affinity, and by the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path(CGROUP_PATH, "cpu.max").read_text().split()
        cores = min(cores, max(round(int(quota) / int(period)), 1))
    return cores


class _Profiler:
    """Runs the measurements one after another; must live inside a Preserve."""

    def __init__(self, setup: Setup, train: Callable[[], Any] | None, steps: int) -> None:
        self.setup, self.train, self.steps = setup, train, steps
        self.step, self.notes = TrainingStep(setup), list[str]()

    def run(self, screen: Screen, try_changes: bool) -> Profile:
        """Return the result; an interrupt in a notebook, such as the Stop button, leaves out what is not measured."""
        results: list[Profile] = []
        try:
            for result in self._measured_so_far(screen, try_changes):
                results.append(result)
                if screen.stopped:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            if not results or not isinstance(screen, LiveScreen):
                raise
            headline = "Stopped before all measurements were made."
            return replace(results[-1], headline=headline, notes=tuple(self.notes))
        result = results[-1]
        return replace(result, headline=_headline(result, result.advice), notes=tuple(self.notes))

    def _measured_so_far(self, screen: Screen, try_changes: bool) -> Iterator[Profile]:
        """Yield the result after each measurement."""
        screen.update(running_view("timing the steps of a standard loop"))
        standard = LoopTimer(self.setup, self.steps, _LOOP_SECONDS, is_own_loop=True)
        batches = run_standard_loop(self.setup, standard)
        loop = standard
        if self.train is not None:
            screen.update(running_view("timing the steps of your loop"))
            loop = self._time_user_loop()
        torch.autograd.set_detect_anomaly(loop.used_anomaly_mode)  # as the loop does, in what follows
        result = self._describe_loop(standard, loop, batches)
        yield result
        measurements: dict[str, Callable[[], Profile]] = {
            "timing each line of the loop": lambda: replace(result, lines=self._measure_lines(result, loop.step_codes)),
            "trying batch sizes, threads and settings": lambda: self._try_steps(result, batches),
            "trying numbers of workers": lambda: self._sweep_loader(result, batches),
            "measuring modules, memory and latency": lambda: self._measure_model(result, batches),
            **({"trying changes on copies": lambda: self._try_changes(result, batches)} if try_changes else {}),
            "measuring the gain of the best change": lambda: self._advise(result, batches, loop),
        }
        for status, measure in measurements.items():
            screen.update(running_view(status))
            result = measure()
            yield result

    def _time_user_loop(self) -> LoopTimer:
        """Return the timer of the user's loop, after it has run."""
        assert self.train is not None
        timer = LoopTimer(self.setup, self.steps, _LOOP_SECONDS)
        with preserve_loop(self.setup, self.train):
            run_user_loop(self.train, timer)
        if kinds := used_up_iterators(self.train):
            self.notes.append(f"Your loop reads a {join_names(kinds)}, which cannot be rewound: part of it is used up.")
        return timer

    def _describe_loop(self, standard: LoopTimer, loop: LoopTimer, batches: list[Batch]) -> Profile:
        """Return the result with what the timers have measured."""
        steps, standard_steps = loop.step_times(), standard.step_times()
        if not loop.training_passes and self.train is not None:
            self.notes.append("Your loop did not call the model of the setup, so its passes count as Python.")
        own_seconds = max(sum(step.seconds for step in steps), 1e-9) / len(steps)
        overhead = loop.overhead_seconds() / own_seconds
        if overhead > _MAX_OVERHEAD:
            text = f"A step is so short that the hooks take {overhead:.0%} of it; its phases are too long by that much."
            self.notes.append(text)
        count = max(loop.ended_steps, 1)
        return Profile(
            headline="",
            steps=steps,
            is_user_loop=self.train is not None,
            device=str(self.setup.model_device),
            batch_size=user_batch_size(self.setup) or batches[-1].size,
            threads=torch.get_num_threads(),
            cores=_available_cores(),
            workers=getattr(self.setup.train_loader, "num_workers", 0),
            data_seconds=typical_seconds(standard_steps, "data"),
            reading_cpu_share=loop.reading_cpu_seconds / max(loop.reading_seconds, 1e-9),
            standard_seconds=typical_seconds(standard_steps),
            transferred_bytes=loop.transferred_bytes // count,
            pinned_share=loop.pinned_bytes / loop.transferred_bytes if loop.transferred_bytes else 1.0,
            overhead=overhead,
        )

    def _measure_lines(self, result: Profile, step_codes: tuple[CodeType, ...]) -> tuple[LineTime, ...]:
        """Return the seconds of the user's lines, from a further run of the loop that is traced and sampled."""
        timer = LoopTimer(self.setup, self.steps, _LOOP_SECONDS, is_own_loop=self.train is None)
        if self.train is None:
            with sample_lines(timer) as sampler:
                run_standard_loop(self.setup, timer)
        else:
            with preserve_loop(self.setup, self.train), sample_lines(timer, step_codes) as sampler:
                run_user_loop(self.train, timer)
        if result.workers and result.share("data") >= _MIN_DATA_SHARE:
            sampler.forget("data")
            self._sample_reading(sampler)
        return line_times(sampler, timer.line_seconds(), result.phases, self.setup.loss_fn)

    def _sample_reading(self, workers_sampler: LineSampler) -> None:
        """Sample the lines that read batches in this process, in place of those that workers run."""
        timer = LoopTimer(self.setup, self.steps, _LOOP_SECONDS)
        deadline = time.perf_counter() + _READING_SECONDS
        with sample_lines(timer) as sampler, timer.charge("data"):
            call_loop(lambda: _read_batches(self.setup, self.steps, deadline))
        workers_sampler.seconds.update(sampler.seconds)
        workers_sampler.totals.update(sampler.totals)

    def _try_steps(self, result: Profile, batches: list[Batch]) -> Profile:
        """Try what needs no copy, and what a slow optimizer or double precision ask for."""
        size, cached = result.batch_size, cycle(batches)
        candidates = [present_candidate(self.step, cached, size)]
        candidates[0].data_seconds = reading_seconds(self.setup.train_loader, size, result.data_seconds)
        candidates += batch_size_candidates(self.setup, self.step, size, result.data_seconds)
        candidates += thread_candidates(self.step, cached, size, result.cores)
        candidates += setting_candidates(self.step, cached, size)
        if self.setup.step_fn is None and not any(map(needs_closure, self.setup.optimizers)):
            candidates.append(free_loss_candidate(self.setup, self.step, cached, size))
            changes = ModelChanges(self.setup, batches[-1], cached, size)
            candidates += changes.necessary()
            if result.share("optimizer") >= _MIN_OPTIMIZER_SHARE:
                candidates += changes.fused_optimizer()
        trials = measure_candidates(candidates, self.step.device, self.steps, _TRIAL_SECONDS)
        present = trials[0].seconds
        loader = SpeedTrial("loader", "yours", result.data_seconds + present, size, is_present=True)
        cached_trial = replace(trials[0], gain=loader.seconds / present, is_present=False)
        plain = plain_reading_seconds(batches[-1], size)
        result = replace(result, plain_reading_seconds=plain)
        return replace(result, replay_seconds=present, trials=(loader, cached_trial, *trials[1:]))

    def _sweep_loader(self, result: Profile, batches: list[Batch]) -> Profile:
        """Try other numbers of workers if the step waits for data, and pinned memory if it waits for copies."""
        share = result.data_seconds / max(result.standard_seconds, 1e-9)
        waits_for_data = max(share, result.share("data")) >= _MIN_DATA_SHARE
        waits_for_copies = result.share("transfer") >= _MIN_DATA_SHARE
        if not waits_for_data and not waits_for_copies:
            return result
        if obstacle := sweep_obstacle(self.setup):
            self.notes.append(f"Numbers of workers and pinned memory were not tried: {obstacle}.")
            return result
        reading = 0.0 if result.workers else result.data_seconds
        workers = sweep_workers(self.setup, self.step, self.steps, reading) if waits_for_data else []
        pinning = sweep_pinning(self.setup, self.step, self.steps) if waits_for_copies else []
        return replace(result, trials=(*result.trials, *workers, *pinning))

    def _measure_model(self, result: Profile, batches: list[Batch]) -> Profile:
        """Measure modules, ceilings, memory and latency."""
        modules, self.counter = measure_modules(self.setup, batches[-1])
        self.calls = measure_line_calls(self.setup, batches[-1], result.phases["backward"])
        result = replace(
            result,
            modules=modules,
            roofline=measure_roofline(self.step.device, next(self.setup.eager_model.parameters()).dtype),
            latencies=measure_latencies(self.setup, result.batch_size, self.steps),
            peak_bytes=self.step.peak_memory(batches[-1]),
            resident_bytes=total_bytes(self.step.resident_tensors),
        )
        self.step.clear()
        release_memory(self.step.device)
        return result

    def _try_changes(self, result: Profile, batches: list[Batch]) -> Profile:
        """Try changes of time and memory on copies, each beside the present step."""
        cached = cycle(batches)
        changes = ModelChanges(self.setup, batches[-1], cached, result.batch_size)
        if changes.obstacle:
            self.notes.append(f"No change was tried on a copy: {changes.obstacle}.")
        present = present_candidate(self.step, cached, result.batch_size)
        trials = list(result.trials)
        for make in changes.optional():
            try:
                candidate = make()
            except Exception as error:
                self.notes.append(f"A change could not be tried: {type(error).__name__}: {error}".partition("\n")[0])
                continue
            (trial,) = measure_candidates([present, candidate], self.step.device, self.steps, _TRIAL_SECONDS)[1:]
            peak = candidate.peak() if candidate.peak is not None and not trial.failure else 0
            trials.append(replace(trial, peak_bytes=peak))
        return replace(result, trials=tuple(trials))

    def _advise(self, result: Profile, batches: list[Batch], loop: LoopTimer) -> Profile:
        """Return the result with the advice that gains enough."""
        starts = loop.loader_starts / max(loop.ended_steps, 1)
        facts = Facts(self.setup, self.counter, self.calls, starts, loop.step_codes, loop.step_lines)
        advice = [item for item in Diagnosis(result, facts).advice() if item.gain >= MIN_GAIN]
        for _ in range(_MAX_MEASURED_GAINS):
            if not advice or advice[0].is_measured or (first := self._measure_gain(result, advice[0], facts)) is None:
                break
            advice[0] = first
            advice = sorted((item for item in advice if item.gain >= MIN_GAIN), key=rank)
        return replace(result, advice=tuple(advice))

    def _measure_gain(self, result: Profile, advice: Advice, facts: Facts) -> Advice | None:
        """Return advice with the gain that the loop has with it; None if that cannot be measured."""
        change = switched_change(self.setup, result, advice, facts)
        if change is None:
            return None
        try:
            return measure_gain(self.setup, self.train, advice, change, self.steps)
        except NotChecked as reason:
            self.notes.append(f"The gain is an estimate: {reason}.")
        except Exception as error:
            self.notes.append(f"The gain is an estimate: with the change, the loop raises {type(error).__name__}.")
        return None


def _read_batches(setup: Setup, count: int, deadline: float) -> None:
    """Read some batches in this process."""
    for _ in setup.batches(count):
        if time.perf_counter() > deadline:
            break


def _headline(result: Profile, advice: tuple[Advice, ...]) -> str:
    """Return the verdict."""
    if advice:
        return f"{advice[0].headline} {advice[0].gain_text}"
    text = f"Balanced: no change that was tried gains {MIN_GAIN:.1f}×."
    return f"{text} A step takes {milliseconds(result.step_seconds)}."
