"""Measure what watching costs, and decide what each step records to keep it within a share of the run time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.hooks.training_events import ALL_EVENTS, LOSS_AND_REPLAY, LOSS_ONLY, StepVisibility
from nbdebug.preserve import open_blocks

_DEFAULT_BUDGET, _MIN_SNAPSHOT_SECONDS = 0.01, 0.1
_TEST_SHARE, _MIN_TEST_SECONDS, _MAX_TEST_SECONDS = 0.1, 1.0, 2.0
_OVER_BUDGET_FACTOR, _STRICT_BUDGET_FACTOR = 0.25, 0.1  # factors on occasional work while over budget
ALWAYS_MEASURED_STEPS = 64  # the gradients of the first steps are always measured
MAX_LOSS_ONLY_STEPS = 31  # consecutive steps that record only the loss


class Throttle:
    """After each run, waits until the work has taken no more than a share of the time, multiplied by ``factor``.

    The work may run again once the clock (seconds) reaches ``next_time``.
    """

    def __init__(self, share: float) -> None:
        self.share, self.factor, self.next_time = share, 1.0, 0.0

    def record(self, seconds: float, now: float) -> None:
        """Record a run that has just ended."""
        self.next_time = now
        self.charge(seconds)

    def charge(self, seconds: float) -> None:
        """Charge additional seconds to the last run."""
        self.next_time += seconds * (1 / (self.factor * self.share) - 1)


class TimeBudget:
    """Counts the time that watching takes, and decides what each step records so that it stays within a budget.

    A snapshot of every layer is due at each ``every`` steps; by default at steps 1, 2, 3, 4, 6, 8, 12, … and otherwise
    at most ten times a second, within half of the budget. A quarter is for the gradient norms, and a quarter for
    tracking the order of events; with ``every`` the loop monitor schedules that itself. While all watching, including
    the work of each step, exceeds the budget, these shares are multiplied by a quarter. A budget set by
    the user is enforced: the factor is a tenth, also for the display, and while it is exceeded most
    steps record only their loss. Callbacks read the parameters in a block of ``shard_access``. None runs while
    ``is_capturing`` is true, since it would become a part of the CUDA graph.
    """

    def __init__(self, budget: float | None, every: int | None) -> None:
        self.budget, self.every = _DEFAULT_BUDGET if budget is None else budget, every
        if not (isinstance(self.budget, (int, float)) and 0 < self.budget <= 1):
            raise SetupError(
                f"budget is {budget!r}; expected a share of the time, 0 to 1. Leave it out for {_DEFAULT_BUDGET}."
            )
        if every is not None and not (isinstance(every, int) and every > 0):
            raise SetupError(
                f"every is {every!r}; expected a whole number of steps, at least 1. Leave it out to use budget."
            )
        self.strict = budget is not None and every is None
        self.snapshot_throttle, self.norm_throttle, self.event_throttle = (
            Throttle(self.budget * share) for share in (1 / 2, 1 / 4, 1 / 4)
        )
        self.display_throttle = Throttle(self.budget * _STRICT_BUDGET_FACTOR)
        self.takes_snapshot = self.events_are_due = self.measures_norms = self.in_callback = False
        self.visibility: StepVisibility = ALL_EVENTS
        self.next_due, self.next_spaced_step = 0.0, 1
        self.consecutive_loss_only = self.loss_only_steps = 0
        self.errors: dict[str, str] = {}
        self.shard_access: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.is_capturing: Callable[[], bool] = lambda: False
        self.met_capture = False
        self.start()

    def start(self) -> None:
        """Start the clock."""
        self.started = self.last_snapshot = time.perf_counter()
        self.spent_seconds = self.spent_before_step = 0.0
        self.outer_blocks = len(open_blocks)

    @property
    def seconds_per_test(self) -> float:
        """The seconds of a test after the run: a tenth of the run, from one to two seconds, or the user's budget."""
        if self.strict:
            return self.budget * self.elapsed
        return min(max(_TEST_SHARE * self.elapsed, _MIN_TEST_SECONDS), _MAX_TEST_SECONDS)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def overhead(self) -> float:
        """The share of the run time that watching took."""
        return self.spent_seconds / max(self.elapsed, 1e-9)

    def begin_step(self, step: int, needs_all_events: bool) -> None:
        """Decide the visibility of the step of this number (from 1) that begins, and what is measured in it.

        ``needs_all_events`` requires ``ALL_EVENTS`` even if their share of the budget is spent.
        """
        cost, self.spent_before_step, now = (
            self.spent_seconds - self.spent_before_step,
            self.spent_seconds,
            time.perf_counter(),
        )
        is_over_budget = self.every is None and self.is_over_budget(now)
        factor = _STRICT_BUDGET_FACTOR if self.strict else _OVER_BUDGET_FACTOR
        self.snapshot_throttle.factor = self.norm_throttle.factor = self.event_throttle.factor = (
            factor if is_over_budget else 1.0
        )
        if self.takes_snapshot:
            self.snapshot_throttle.record(cost, now)
            self.last_snapshot = now
        elif self.events_are_due:
            self.event_throttle.record(cost, now)
        self.takes_snapshot = self.snapshot_is_due(step, now)
        self.events_are_due = not self.every and now >= self.event_throttle.next_time
        is_norm_due = step <= ALWAYS_MEASURED_STEPS or now >= self.norm_throttle.next_time
        self.measures_norms = is_norm_due or self.takes_snapshot  # which reads the gradients anyway
        if self.events_are_due or needs_all_events:
            self.visibility = ALL_EVENTS
        elif self.takes_snapshot or self.measures_norms or self.visibility is LOSS_ONLY:
            self.visibility = LOSS_AND_REPLAY
        else:
            self.visibility = LOSS_ONLY if self.exceeds_strict_budget(now) else LOSS_AND_REPLAY
        self.consecutive_loss_only = 0
        if step >= self.next_spaced_step:
            self.next_spaced_step = _next_spaced(step)
        self.next_due = min(
            max(self.snapshot_throttle.next_time, self.last_snapshot + _MIN_SNAPSHOT_SECONDS),
            self.event_throttle.next_time,
            self.norm_throttle.next_time,
        )

    def stays_loss_and_replay(self, step: int, now: float) -> bool:
        """Return whether the step that begins is also ``LOSS_AND_REPLAY``, and nothing is due in it."""
        if (
            self.takes_snapshot
            or self.measures_norms
            or self.every
            or now >= self.next_due
            or step >= self.next_spaced_step
        ):
            return False
        if self.exceeds_strict_budget(now):
            return False
        self.spent_before_step = self.spent_seconds
        return True

    def stays_loss_only(self, step: int, now: float) -> bool:
        """Return whether the step that begins is also ``LOSS_ONLY``."""
        self.consecutive_loss_only += 1
        self.loss_only_steps += 1
        self.spent_before_step = self.spent_seconds
        anything_due = (
            now >= self.next_due or step >= self.next_spaced_step or self.consecutive_loss_only == MAX_LOSS_ONLY_STEPS
        )
        return not anything_due and self.is_over_budget(now)

    def is_over_budget(self, now: float) -> bool:
        """Return whether watching has taken more than its budget."""
        return self.spent_seconds > self.budget * (now - self.started)

    def exceeds_strict_budget(self, now: float) -> bool:
        """Return whether a budget set by the user is exceeded."""
        return self.strict and self.is_over_budget(now)

    def snapshot_is_due(self, step: int, now: float) -> bool:
        """Return whether the step of this number (from 1) gets a full snapshot."""
        if self.every is not None:
            return (step - 1) % self.every == 0
        return (
            now >= self.snapshot_throttle.next_time and now - self.last_snapshot >= _MIN_SNAPSHOT_SECONDS
        ) or step >= self.next_spaced_step

    def exclude(self, seconds: float) -> None:
        """Exclude idle time, such as a pause."""
        self.started += seconds

    def attempt(self, activity: str, callback: Callable[..., None], *args: Any) -> None:
        """Call ``callback`` unless the same activity has failed before; an exception is stored, not raised."""
        if activity not in self.errors:
            try:
                self._call(callback, args)
            except Exception as error:
                self.errors[activity] = f"{type(error).__name__}: {error}"

    def _call(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call ``callback`` in a block of ``shard_access``; entering one that does nothing takes time too."""
        if self.shard_access is nullcontext:
            return callback(*args)
        with self.shard_access():
            return callback(*args)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Ignore the passes that watching itself runs inside this block."""
        previous, self.in_callback = self.in_callback, True
        try:
            yield
        finally:
            self.in_callback = previous

    def guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Wrap ``callback`` with ``timed`` under its own name."""
        return self.timed(callback.__name__.replace("_", " ").strip(), callback)

    def timed(self, activity: str, callback: Callable[..., Any], *, always: bool = True) -> Callable[..., Any]:
        """Wrap a callback: count its time, store its exception, and disable it after the first one.

        Unless ``always``, it is also skipped in ``LOSS_ONLY`` steps.

        Events inside another such callback come from watching itself, and events inside a Preserve from a tool: both
        are ignored.
        """

        def call(*args: Any) -> Any:
            if (
                self.in_callback
                or activity in self.errors
                or len(open_blocks) > self.outer_blocks
                or (not always and self.visibility is LOSS_ONLY)
            ):
                return None
            if self.is_capturing():
                self.met_capture = True
                return None
            started, self.in_callback = time.perf_counter(), True
            try:
                return self._call(callback, args)
            except Exception as error:
                self.errors[activity] = f"{type(error).__name__}: {error}"
            finally:
                self.in_callback = False
                self.spent_seconds += time.perf_counter() - started
            return None

        return call


def _next_spaced(step: int) -> int:
    """Return the next step of 1, 2, 3, 4, 6, 8, 12, 16, 24, … (two per octave) after ``step``."""
    octave = 1 << step.bit_length()
    return next(candidate for candidate in (octave // 2 + octave // 4, octave) if candidate > step)
