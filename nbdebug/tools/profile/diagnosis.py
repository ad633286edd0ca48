"""The bottlenecks of a profile, each with its estimated gain, cause, code and line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any

from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement
from nbdebug.source.creation import find_creation
from nbdebug.source.location import SourceLine
from nbdebug.source.search import search_files
from nbdebug.tools.profile.line_calls import LineCalls
from nbdebug.tools.profile.line_times import (
    called_names,
    find_line,
    function_name,
    is_in_loop,
    own_loop,
    saves_checkpoint,
)
from nbdebug.tools.profile.operations import OperationTotals
from nbdebug.tools.profile.result import Profile
from nbdebug.tools.profile.time_profile import MIN_GAIN, Advice, AdviceKind, LineTime, SpeedTrial, milliseconds

MIN_BATCH_GAIN = 2.0  # a larger batch also changes the training, so it must gain more
MIN_THREAD_GAIN = 1.5  # while there are no more threads than cores: other programs may use these
_BATCH_DISCOUNT = 3.0  # of its gain in the order of advice
_NEAR_BEST = 0.85  # of the throughput of the best batch size
_MIN_CALLS = 48  # operations per step, from which a Python loop is worth vectorizing
_LOSS_CALLS = 10  # operations of a loss on whole tensors
_VECTORIZED_COST = 3.0  # times its roofline, for forward and backward pass
_WHOLE_RANGE = 2.0  # times less or more that operations on whole tensors may take than each alone
_SLOW_MEASURED = 1.5  # the same for both passes, where the seconds on whole tensors were measured
_SLOW = 3.0  # times the least seconds of both passes, from which the forward pass of a line is worth vectorizing
_MIN_GROWTH = 1.8
RARER, RARER_EVALUATION = 100, 10  # times
_MAX_SAVED_SHARE = 0.99
_MIN_CPU_SHARE = 0.5  # of the wait for data, from which a faster line is better than workers
_MIN_LOW_GAIN = 1.1  # in every round of a trial


_SETTING_WORDS = {
    "anomaly mode off": ("detect_anomaly(",),
    "deterministic algorithms off": ("use_deterministic_algorithms(", "deterministic="),
}


@dataclass(frozen=True)
class Facts:
    """Facts that the diagnosis reads beside the profile."""

    setup: Setup
    counter: OperationTotals
    calls: LineCalls | None = None
    loader_starts_per_step: float = 0.0
    step_codes: tuple[CodeType, ...] = ()
    step_lines: tuple[SourceLine, ...] = ()


class Diagnosis:
    """Finds the changes that gain MIN_GAIN."""

    def __init__(self, profile: Profile, facts: Facts) -> None:
        self.profile, self.facts = profile, facts
        self.step_seconds = profile.step_seconds
        self.files = search_files(user_written_objects(facts.setup))
        self._measured: dict[LineTime, float | None] = {}

    def advice(self) -> tuple[Advice, ...]:
        """Return the advice with the largest gain first; a larger batch, which changes the training, counts less."""
        items = [*self._data(), *self._transfer(), *self._batch_size(), *self._trials(), *self._loss()]
        items += [*self._forward(), *self._plain_python(), *self._evaluation(), *self._loop_lines()]
        return tuple(sorted(items, key=rank))

    def _gain(self, saved: float) -> float:
        """Return the gain of a step that takes this much less time."""
        saved = min(max(saved, 0.0), _MAX_SAVED_SHARE * self.step_seconds)
        return self.step_seconds / (self.step_seconds - saved) if self.step_seconds else 1.0

    def _line(self, created: Any) -> SourceLine | None:
        creation = find_creation(created, sorted(self.files), sys._getframe(1))
        return creation.line if creation else None

    def _data(self) -> Iterator[Advice]:
        """Advise on the loader: workers if they were measured to help, otherwise the slowest line."""
        wait = self.profile.phases["data"]
        if (ceiling := self._gain(wait)) < MIN_GAIN:
            return
        expected = self._gain(wait - (0.0 if self.profile.workers else self.profile.plain_reading_seconds))
        slowest = self.profile.slowest_line("data")
        loader_line = self._line(self.facts.setup.train_loader)
        line = slowest.line if slowest else loader_line
        cause = f"Cached batches would gain {ceiling:.2f}×, which is the ceiling of any loader."
        headline = f"The step waits {wait / self.step_seconds:.0%} of its time for data."
        if self.facts.loader_starts_per_step > 0.5 and self.profile.is_user_loop:
            code = "batches = iter(train_loader)   # once per epoch, outside the step"
            cause = f"The loop starts the loader again at each step. {cause}"
            yield Advice("data", expected, headline, cause, code, line)
            return
        workers = self._workers()
        gain = self._workers_gain(workers) if workers is not None else 1.0
        computes = self.profile.reading_cpu_share > _MIN_CPU_SHARE and not self.profile.workers
        if workers is not None and gain >= (_NEAR_BEST * expected if computes and slowest else MIN_GAIN):
            text = f"{workers.name} workers were measured to gain {gain:.2f}×. {cause}"
            yield Advice("data", gain, headline, text, workers.code, line)
            return
        if workers is not None and gain >= MIN_GAIN:
            cause = f"{cause} {workers.name} workers were measured to gain {gain:.2f}×: {workers.code}"
        spot = f"line {slowest.line.number}" if slowest else "the dataset"
        code = f"# cache the result of {spot}, vectorize it, or do it once before training"
        yield Advice("data", expected, headline, cause, code, line)

    def _workers(self) -> SpeedTrial | None:
        """Return the smallest number of workers with nearly the largest gain."""
        best = self.profile.best("workers")
        trials = [t for t in self.profile.trials if t.group == "workers" and not t.failure and not t.is_present]
        return next((t for t in trials if best is not None and t.gain >= _NEAR_BEST * best.gain), None)

    def _workers_gain(self, workers: SpeedTrial) -> float:
        """Return the gain of a number of workers, from whole steps that were measured alike."""
        present = next(t for t in self.profile.trials if t.group == "workers" and t.is_present)
        return (present.seconds + self._other_seconds) / (workers.seconds + self._other_seconds)

    @property
    def _other_seconds(self) -> float:
        """The seconds of a step of the user's loop that no trial repeats."""
        phases = self.profile.phases
        return phases["evaluation"] + phases["python"] if self.profile.is_user_loop else 0.0

    def _transfer(self) -> Iterator[Advice]:
        """Advise on pinned memory."""
        wait = self.profile.phases["transfer"]
        best = self.profile.best("pinning")
        gain = best.gain if best is not None else self._gain(wait)
        if gain < MIN_GAIN or self.profile.pinned_share > 0.5:
            return
        code = "DataLoader(..., pin_memory=True)   # and x.to(device, non_blocking=True)"
        headline = f"The step copies unpinned batches to the device in {wait / self.step_seconds:.0%} of its time."
        cause = "A copy from memory that is not pinned blocks the host until it is done."
        yield Advice("transfer", gain, headline, cause, code, self._line(self.facts.setup.train_loader))

    def _batch_size(self) -> Iterator[Advice]:
        """Advise the smallest batch with nearly the highest throughput."""
        size = self.profile.batch_size
        trials = [t for t in self.profile.trials if t.group == "batch size" and not t.failure and not t.is_present]
        gains = {trial: self._batch_gain(trial) for trial in trials}
        best = max(gains.values(), default=1.0)
        if best < MIN_BATCH_GAIN:
            return
        trial = min((t for t in trials if gains[t] >= _NEAR_BEST * best), key=lambda t: t.size)
        if trial.low < MIN_BATCH_GAIN * _NEAR_BEST:
            return
        headline = f"Batches of {size} leave the {self.profile.device} mostly idle."
        cause = (
            f"A step on {trial.size} samples takes {milliseconds(trial.seconds)}, "
            f"one on {size} takes {milliseconds(self.profile.replay_seconds)}. Run lr_range() after the change."
        )
        line = self._line(self.facts.setup.train_loader)
        yield Advice("batch size", gains[trial], headline, cause, trial.code, line)

    def _batch_gain(self, trial: SpeedTrial) -> float:
        """Return the gain in samples per second, from steps and readings of both sizes that were measured alike.

        A wait for data that was not measured for its size grows with it. Python code without tensors has to go whatever
        the size; without it, too, a larger batch takes no less time, which bounds the gain by the factor of the sizes.
        """
        profile, present = self.profile, self.profile.cached_trial
        factor = trial.size / max(profile.batch_size, 1)
        python = min(sum(self._python_seconds.values()), profile.replay_seconds)
        before = after = profile.phases["data"]
        after *= factor
        if present is not None and present.data_seconds is not None and trial.data_seconds is not None:
            before, after = present.data_seconds, trial.data_seconds
        before += profile.replay_seconds - python + self._other_seconds
        after += max(trial.seconds, profile.replay_seconds) - python + self._other_seconds
        return factor * before / max(after, 1e-6)

    def _trials(self) -> Iterator[Advice]:
        """Advise on threads, precision, settings and optimizers by their trials."""
        for group, kind in (("threads", "threads"), ("dtype", "dtype"), ("settings", "settings"), ("optimizer",) * 2):
            best = self.profile.best(group)
            if best is None:
                continue
            gain = self._trial_gain(best.gain)
            is_surplus = (
                self.profile.threads > self.profile.cores and int(best.name) < self.profile.threads
                if group == "threads"
                else True
            )
            if gain >= (MIN_GAIN if is_surplus else MIN_THREAD_GAIN) and best.low >= _MIN_LOW_GAIN:
                yield self._trial_advice(kind, best, gain)  # type: ignore[arg-type]

    def _trial_gain(self, factor: float, remaining: float = 0.0) -> float:
        """Return the gain of a step whose computation is faster by a factor, except for a share of what that saves."""
        return self._gain(self.profile.computing_seconds * (1 - 1 / max(factor, 1.0)) * (1 - remaining))

    def _trial_advice(self, kind: AdviceKind, trial: SpeedTrial, gain: float) -> Advice:
        """Return the advice to make a change that was tried."""
        profile = self.profile
        texts = {
            "threads": (
                f"PyTorch computes with {profile.threads} threads on {profile.cores} cores; {trial.name} are faster.",
                "Threads that wait for each other or for a core cost more than they compute.",
                "set_num_threads",
            ),
            "dtype": ("The model computes in double precision.", "Training seldom needs more than float32.", "double"),
            "settings": (f"A debugging setting slows each step: {trial.name} is faster.", "", ""),
            "optimizer": ("The optimizer updates the parameters one after another.", "", ""),
        }
        headline, cause, word = texts[kind]
        cause = f"{cause} The step takes {milliseconds(trial.seconds)} with {trial.name}.".strip()
        words = {"dtype": ("double()", "float64"), "settings": _SETTING_WORDS.get(trial.name, ())}.get(kind, (word,))
        if kind == "optimizer":
            line = self._line(self.facts.setup.optimizers[0])
        else:
            line = find_line(self.files, lambda text: any(part and part in text for part in words))
        low, high = map(self._trial_gain, (trial.low, trial.high))
        return Advice(kind, gain, headline, cause, trial.code, line, low, high)

    def _loss(self) -> Iterator[Advice]:
        """Advise to vectorize a loss that makes many small operations."""
        free = self.profile.best("loss")
        slowest = self.profile.slowest_line("loss")
        is_looped = self.facts.counter.loss_calls >= _MIN_CALLS or (
            slowest is not None and not slowest.is_loop_line and is_in_loop(slowest.line)
        )
        if free is None or not is_looped:
            return
        calls = self.facts.counter.loss_calls
        remaining = _LOSS_CALLS / calls if calls >= _MIN_CALLS else 0.0
        gain, low, high = (self._trial_gain(factor, remaining) for factor in (free.gain, free.low, free.high))
        if gain < MIN_GAIN:
            return
        headline = f"The loss makes {self.facts.counter.loss_calls} operations in each step."
        if self.facts.counter.loss_calls < _MIN_CALLS:
            headline = "The loss runs a Python loop in each step."
        cause = f"A loss that costs nothing would gain {free.gain:.2f}×, and one on whole tensors nearly as much."
        code = "# replace the Python loop of the loss by operations on whole tensors"
        yield Advice("loss", gain, headline, cause, code, slowest.line if slowest else None, low, high)

    def _forward(self) -> Iterator[Advice]:
        """Advise to vectorize a Python loop in the model that makes many small operations."""
        by_function: dict[tuple[str, str], list[LineTime]] = {}
        for item in self.profile.lines:
            if item.phase == "forward" and not item.is_loop_line:
                by_function.setdefault((item.line.file, function_name(item.line)), []).append(item)
        for place, lines in by_function.items():
            slow = [item for item in lines if self._is_slow(item)]
            looped = [self._costs(item)[2:] for item in slow if is_in_loop(item.line)]
            calls, whole_calls = (sum(amounts) for amounts in zip((0, 0), *looped, strict=True))
            if calls < _MIN_CALLS:
                continue
            seconds = sum(item.seconds for item in slow) + self._backward_seconds(*place, slow)
            least = sum(map(self._whole_seconds, slow)) + seconds * whole_calls / calls
            low, gain, high = (self._gain(seconds - f * least) for f in (_WHOLE_RANGE, 1, 1 / _WHOLE_RANGE))
            if gain < MIN_GAIN or low < _MIN_LOW_GAIN:
                continue
            slowest = max((item for item in slow if is_in_loop(item.line)), key=lambda item: item.seconds)
            headline = f"A Python loop in {function_name(slowest.line)}() makes {calls} operations in each step."
            cause = f"Its operations take {milliseconds(seconds)}, on whole tensors about {milliseconds(least)}."
            code = "# replace the Python loop by operations on whole tensors"
            yield Advice("module", gain, headline, cause, code, slowest.line, low, high)

    def _plain_python(self) -> Iterator[Advice]:
        """Advise on code in the model that takes time without any operation on tensors."""
        for item, seconds in self._python_seconds.items():
            name = function_name(item.line)
            headline = f"{name}() computes for {milliseconds(seconds)} of each step without tensors."
            cause = "This part of the forward pass is Python code, which neither a device nor larger batches speed up."
            code = "# compute it once before training, as a buffer, or with operations on whole tensors"
            yield Advice("module", self._gain(seconds), headline, cause, code, item.line)

    @cached_property
    def _python_seconds(self) -> dict[LineTime, float]:
        """Return the slowest line of each function in the forward pass with the seconds of its lines without tensors.

        Only functions whose time is worth an advice are returned.
        """
        by_function: dict[tuple[str, str], list[LineTime]] = {}
        for item in self.profile.lines:
            if item.phase == "forward" and not item.is_loop_line and not self._has_operations(item):
                by_function.setdefault((item.line.file, function_name(item.line)), []).append(item)
        sums = {
            max(items, key=lambda item: item.seconds): sum(item.seconds for item in items)
            for items in by_function.values()
        }
        return {item: seconds for item, seconds in sums.items() if self._gain(seconds) >= MIN_GAIN}

    def _has_operations(self, item: LineTime) -> bool:
        """Check whether the statement of a line makes operations on tensors, or what it makes is unknown."""
        statement = covering_statement(item.line)
        if statement is None or not self.facts.counter.line_costs:
            return True
        numbers = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        counted = {line.number for line in self.facts.counter.line_costs if line.file == item.line.file}
        return not counted.isdisjoint(numbers)

    def _costs(self, item: LineTime) -> list[int]:
        """Return operations, bytes and calls of a line in a forward pass, and its calls on whole tensors."""
        place, counter = (item.line.file, item.line.number), self.facts.counter
        costs = [
            (*costs, counter.line_operations[line].total(), counter.whole_calls(line))
            for line, costs in counter.line_costs.items()
            if (line.file, line.number) == place
        ]
        return [sum(amounts) for amounts in zip([0] * 4, *costs, strict=True)]

    def _least_seconds(self, item: LineTime) -> float:
        """Return the seconds that the operations of a line need on whole tensors, with their backward pass."""
        flops, moved, _, _ = self._costs(item)
        roofline = self.profile.roofline
        return _VECTORIZED_COST * roofline.seconds(flops, moved) if roofline else 0.0

    def _is_slow(self, item: LineTime) -> bool:
        """Check whether a line takes much longer than its operations do on whole tensors."""
        whole = self._measured_seconds(item)
        if whole is None:
            return item.seconds > _SLOW * self._least_seconds(item)
        return item.seconds + self._backward_seconds("", "", [item]) > _SLOW_MEASURED * whole

    def _backward_seconds(self, file: str, function: str, items: list[LineTime]) -> float:
        """Return the seconds of the backward pass of some lines, and of all lines in loops of a function.

        A line that only selects a part of a tensor takes no time in the forward pass, but much in the backward pass.
        """
        if (calls := self.facts.calls) is None:
            return 0.0
        places = {(item.line.file, item.line.number) for item in items}
        looped = [line for line in calls.lines.values() if line.file == file and is_in_loop(line)]
        places |= {(line.file, line.number) for line in looped if function_name(line) == function}
        return sum(calls.backward_seconds.get(place, 0.0) for place in places)

    def _measured_seconds(self, item: LineTime) -> float | None:
        """Return by how much longer a line takes on whole tensors than in one pass of its loop; None if unknown."""
        if self.facts.calls is None or not is_in_loop(item.line):
            return None
        if item not in self._measured:
            self._measured[item] = self.facts.calls.whole_seconds((item.line.file, item.line.number))
        return self._measured[item]

    def _whole_seconds(self, item: LineTime) -> float:
        """Return the seconds of a line on whole tensors, beside those of one pass of its loop."""
        seconds = self._measured_seconds(item)
        return self._least_seconds(item) if seconds is None else seconds

    def _evaluation(self) -> Iterator[Advice]:
        """Advise to evaluate more rarely."""
        seconds = self.profile.phases["evaluation"]
        slowest = self.profile.slowest_line("evaluation")
        if slowest is not None:
            seconds += sum(i.seconds for i in self.profile.lines if i.phase == "python" and i.line == slowest.line)
        if (gain := self._gain(seconds * (1 - 1 / RARER_EVALUATION))) < MIN_GAIN:
            return
        headline = f"Evaluation takes {seconds / self.step_seconds:.0%} of the time of a step."
        cause = f"Evaluate {RARER_EVALUATION} times more rarely."
        code = f"if step % {RARER_EVALUATION} == 0:   # before the evaluation, in addition to its present condition"
        yield Advice("evaluation", gain, headline, cause, code, slowest.line if slowest else None)

    def _loop_lines(self) -> Iterator[Advice]:
        """Advise on the lines of the user's loop outside all other phases; those of an inner loop count together."""
        evaluation = self.profile.slowest_line("evaluation")
        groups: dict[tuple[str, int], list[LineTime]] = {}
        for item in self.profile.lines if self.profile.is_user_loop else ():
            if item.phase == "python" and (evaluation is None or evaluation.line != item.line):
                first = own_loop(item.line, self.facts.step_lines)
                groups.setdefault((item.line.file, first), []).append(item)
        for items in groups.values():
            seconds = sum(item.seconds for item in items)
            if (gain := self._gain(seconds * (1 - 1 / RARER))) >= MIN_GAIN:
                yield _line_advice(max(items, key=lambda item: item.seconds), gain, seconds / self.step_seconds)


def rank(advice: Advice) -> float:
    """Return the key that sorts advice: the largest gain first; a larger batch, which changes the training, less."""
    return -advice.gain / (_BATCH_DISCOUNT if advice.kind == "batch size" else 1)


def _line_advice(item: LineTime, gain: float, share: float) -> Advice:
    """Return the advice on one line of the loop."""
    headline = f"Line {item.line.number} takes {share:.0%} of a step."
    cause = f"It computes nothing of the training step. Run it every {RARER} steps."
    code = f"if step % {RARER} == 0:   # before line {item.line.number}"
    if item.growth >= _MIN_GROWTH:
        cause = f"Its time grows from step to step: {item.growth:.1f} times as much in the last third as in the first."
        code = "# keep a running sum instead of all values"
        return Advice("growing", gain, headline, cause, code, item.line)
    if saves_checkpoint(item.line):
        return Advice("checkpoint", gain, f"The loop writes a checkpoint. {headline}", cause, code, item.line)
    if called_names(item.line) & {"item", "tolist", "print"}:
        cause = f"It reads values from tensors or prints them. Do so every {RARER} steps."
    return Advice("line", gain, headline, cause, code, item.line)
