"""Numbers of a loop that equal a wrong mean of the training losses of an epoch, recognized by values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from types import FrameType
from typing import Literal, Protocol

from nbdebug.loop_monitor.batch_averages import returns_mean
from nbdebug.loop_monitor.loop_numbers import NumberKey, loop_numbers
from nbdebug.records import Record
from nbdebug.setup import Setup
from nbdebug.setup.loaders import epoch_batch_sizes

_MAX_EPOCHS = 4  # that are compared
_MIN_MATCHES = 2  # epochs in which a number equals the wrong mean; in one it may do so by chance
_ROUNDING = 2e-5  # relative; the user computes in single precision
_MIN_DIFFERENCE = 1e-2  # relative, between the wrong mean and the mean
LossDivisor = Literal["rows", "batches", "validation batches", "batches of one epoch"]


class _Recorder(Protocol):
    """Records the steps of a loop; ``step`` is the number of the current one."""

    step: int
    record: Record

    def fetch(self) -> None:
        """Write all pending rows."""


@dataclass(frozen=True)
class TrainingAverage:
    """A variable that was a wrong mean of the losses of an epoch of ``batches``, after the latest epoch where it was.

    With the divisor "rows", "validation batches" or "batches of one epoch", a sum of the losses was divided by that
    number; in the last case, the sum over all epochs. With "batches", it was the sum of the losses times the rows of
    each batch. ``count`` is the divisor, and ``mean`` the mean over the batches.
    """

    name: str
    divisor: LossDivisor
    value: float
    mean: float
    batches: int
    count: int


class TrainingAverageMonitor:
    """Compares the numbers of a loop after its first epochs with wrong means of the losses of all their steps."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.epochs, self.first_step, self.total = 0, 0, 0.0
        self.matches: dict[tuple[NumberKey, LossDivisor], list[TrainingAverage]] = {}

    def on_epoch_begin(self, recorder: _Recorder, frame: FrameType | None) -> None:
        """Compare the losses since the previous epoch began with the numbers of the loop."""
        if self.epochs > _MAX_EPOCHS:
            return
        recorder.fetch()
        step, (steps, values) = recorder.step, recorder.record.series("loss")
        losses = [float(value) for number, value in zip(steps, values, strict=True) if number >= self.first_step]
        self.epochs, self.first_step = self.epochs + 1, step
        sizes = epoch_batch_sizes(self.setup.train_loader)
        if len(losses) != len(sizes) or len(sizes) < 2 or not returns_mean(self.setup.loss_fn):
            return
        self.total += math.fsum(losses)
        mean = math.fsum(losses) / len(losses)
        expected = [item for item in self.wrong_means(losses, sizes) if _differs(item[1], mean)]
        for key, number in loop_numbers(frame):
            for divisor, value, count in expected:
                if math.isclose(number, value, rel_tol=_ROUNDING):
                    average = TrainingAverage(key[2], divisor, value, mean, len(losses), count)
                    self.matches.setdefault((key, divisor), []).append(average)

    def wrong_means(self, losses: Sequence[float], sizes: Sequence[int]) -> Iterator[tuple[LossDivisor, float, int]]:
        """Yield the losses of an epoch with each wrong divisor, and that divisor."""
        rows, batches = sum(sizes), len(sizes)
        yield "rows", math.fsum(losses) / rows, rows
        yield "batches", math.fsum(size * loss for size, loss in zip(sizes, losses, strict=True)) / batches, batches
        validation = self.setup.val_loader
        if isinstance(validation, Sized) and len(validation) not in (0, batches):
            yield "validation batches", math.fsum(losses) / len(validation), len(validation)
        if self.epochs > 2:
            yield "batches of one epoch", self.total / batches, batches

    def summary(self) -> tuple[TrainingAverage, ...]:
        """Return one variable for each divisor with which it was a wrong mean after several epochs."""
        averages = [matches[-1] for matches in self.matches.values() if len(matches) >= _MIN_MATCHES]
        return tuple({average.divisor: average for average in reversed(averages)}.values())


def _differs(value: float, mean: float) -> bool:
    return abs(value - mean) > _MIN_DIFFERENCE * max(abs(value), abs(mean))
