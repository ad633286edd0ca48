"""Numbers of a loop that equal a wrong metric or mean loss of the validation batches, recognized by their values."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.loop_monitor.event_stacks import find_consuming_line, user_stack
from nbdebug.loop_monitor.loop_numbers import NumberKey, loop_numbers
from nbdebug.loop_monitor.mistaken_metrics import (
    MistakeKind,
    MistakenMetric,
    MistakenNumber,
    metric_line,
    mistaken_metrics,
)
from nbdebug.loop_monitor.whole_set_metrics import count_correct, whole_set_metrics
from nbdebug.setup.losses import ignore_index, score_tensor
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_MAX_EVALUATIONS, _MAX_BATCHES, _MAX_VALUES = 3, 100, 50_000
_MAX_TENSORS = 4
_MIN_MATCHES = 2  # evaluations in which a number equals the mean; in one it may do so by chance
_ROUNDING = 2e-5  # relative; the user computes in single precision
_MIN_DIFFERENCE = 1e-3  # relative, between the mean over batches and the value on all rows
Divisor = Literal["", "batches", "rows", "evaluations", "equal weights"]
_Array = NDArray[np.float64]
_WholeSet = list[tuple[_Array, _Array]]  # scores and targets of each batch
_Batch = tuple[Tensor, list[Tensor]]  # scores, and targets that fit them
_Expected = tuple[str, float, float, int, Divisor]  # metric, its mean, its value on all rows, their number


@dataclass(frozen=True)
class BatchAverage:
    """A variable or expression that was the mean of a metric over the batches, in the latest evaluation where it was.

    ``whole`` is the metric on all ``rows``; ``line`` is where the evaluation calls the model. With the ``divisor``
    "batches", it was instead the sum of the losses times the rows of each batch, or of the correct predictions, divided
    by the number of batches; with "rows", the sum of the mean losses of the batches, divided by the number of rows.
    With "evaluations", it was the accuracy over all evaluations so far; with "equal weights", the mean over batches of
    different sizes of a metric that is a mean over rows.
    """

    name: str
    metric: str
    value: float
    whole: float
    batches: int
    rows: int
    line: SourceLine
    divisor: Divisor = ""

    @property
    def is_unmistakable(self) -> bool:
        """True for the exact number of correct predictions per batch: more than one, and no round number."""
        correct_per_batch = round(self.whole * self.rows) / self.batches
        is_exact = (self.metric, self.divisor, self.value) == ("accuracy", "batches", correct_per_batch)
        return is_exact and self.value > 1 and round(self.value, 2) != self.value


class BatchAverageMonitor:
    """Compares the numbers of a loop after its first evaluations with the metrics of the validation batches."""

    def __init__(self, loss_fn: Any) -> None:
        self.loss_fn = loss_fn if returns_mean(loss_fn) else None
        self.ignored = ignore_index(loss_fn)
        self.evaluations = self.values = 0
        self.targets: list[Tensor] = []
        self.batches: list[_Batch] = []
        self.line: SourceLine | None = None
        self.correct: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.matches: dict[tuple[NumberKey, str, Divisor], list[BatchAverage]] = {}
        self.mistakes: dict[tuple[NumberKey, str, MistakeKind], list[MistakenNumber]] = {}

    @property
    def wants_output(self) -> bool:
        """True if the output of the current pass is to be recorded."""
        return bool(self.targets)

    def on_batch(self, split: str, batch: Any) -> None:
        """Record a batch of any loader; one of another loader ends the evaluation."""
        if split != "val" and self.batches:
            self.compare(sys._getframe(1))
        is_recorded = split == "val" and self.evaluations < _MAX_EVALUATIONS
        self.targets = tree_tensors(batch)[:_MAX_TENSORS] if is_recorded else []

    def on_forward_end(self, output: Any) -> None:
        """Record the output of a pass over a validation batch."""
        targets, self.targets = self.targets, []
        scores = score_tensor(output) if targets and not torch.is_grad_enabled() else None
        if not isinstance(scores, Tensor) or not scores.is_floating_point() or scores.is_nested or not scores.dim():
            return
        fitting = [values for values in targets if _fits(scores, values)]
        self.values += scores.numel()
        if len(self.batches) >= _MAX_BATCHES or self.values > _MAX_VALUES:
            self.evaluations, self.batches = _MAX_EVALUATIONS, []  # the validation data is too large
        elif fitting:
            self.batches.append((scores.detach().clone(), fitting))
            self.line = self.line or find_consuming_line(user_stack(sys._getframe(1)))

    def compare(self, frame: FrameType | None) -> None:
        """Compare the numbers in the variables of the user's functions with wrong metrics of the recorded batches."""
        batches, self.batches, self.values = self.batches, [], 0
        self.evaluations += 1
        if self.line is None:
            return
        whole_sets = [*_whole_sets(batches)]
        expected = [*_batch_means(whole_sets), *self.loss_quotients(batches)] if len(batches) > 1 else []
        expected += [*self.accuracy_quotients(whole_sets), *_uneven_means(whole_sets)]
        mistaken = [pair for whole_set in whole_sets for pair in _mistaken_metrics(whole_set, self.ignored)]
        numbers = [*loop_numbers(frame)]
        for key, number in numbers:
            for metric, mean, whole, rows, divisor in expected:
                if math.isclose(number, mean, rel_tol=_ROUNDING):
                    if divisor == "evaluations" and any(math.isclose(n, whole, rel_tol=_ROUNDING) for _, n in numbers):
                        continue  # a mean beside the accuracy of each evaluation
                    average = BatchAverage(key[2], metric, number, whole, len(batches), rows, self.line, divisor)
                    self.matches.setdefault((key, metric, divisor), []).append(average)
            for mistake, rows in mistaken:
                if mistake.is_value_of(key[2], key[0], number):
                    mistaken_number = MistakenNumber(key[2], mistake, rows, metric_line(mistake.metric, self.line))
                    self.mistakes.setdefault((key, mistake.metric, mistake.kind), []).append(mistaken_number)

    def loss_quotients(self, batches: list[_Batch]) -> Iterator[_Expected]:
        """Yield the loss with a wrong divisor: sums over rows over batches, or sums of means over rows."""
        sizes, means = [len(scores) for scores, _ in batches], self.batch_losses(batches)
        rows, total = sum(sizes), math.fsum(size * mean for size, mean in zip(sizes, means, strict=False))
        if means and max(sizes) > 1 and total:
            yield "loss", total / len(batches), total / rows, rows, "batches"
            yield "loss", math.fsum(means) / rows, total / rows, rows, "rows"

    def accuracy_quotients(self, whole_sets: list[_WholeSet]) -> Iterator[_Expected]:
        """Yield the accuracy with a wrong divisor: the number of batches, or that of the rows of all evaluations."""
        for index, batches in enumerate(whole_sets):
            rows = sum(labels.size for _, labels in batches)
            ways = zip(*(count_correct(scores, labels) for scores, labels in batches), strict=False)
            for way, counts in enumerate(ways):
                history = self.correct.setdefault((index, way), [])
                history.append((sum(counts), rows))
                accuracy = sum(counts) / rows
                so_far = sum(count for count, _ in history) / sum(size for _, size in history)
                if accuracy and rows > len(batches) > 1:
                    yield "accuracy", sum(counts) / len(batches), accuracy, rows, "batches"
                if abs(so_far - accuracy) > _MIN_DIFFERENCE:
                    yield "accuracy", so_far, accuracy, rows, "evaluations"

    def batch_losses(self, batches: list[_Batch]) -> list[float]:
        """Return the loss of each batch; empty if it is unknown or does not accept these targets as they are."""
        if self.loss_fn is None or min(len(targets) for _, targets in batches) != 1:
            return []
        call = getattr(self.loss_fn, "forward", self.loss_fn)  # calls none of the hooks of a module
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("error")
                return [float(call(scores, targets[0].to(scores.device))) for scores, targets in batches]
        except Exception:  # the loop changes the targets first
            return []

    def summary(self) -> tuple[BatchAverage, ...]:
        """Return the variables that were the mean of the same metric after several evaluations, one for each metric.

        A number that nothing else explains counts after a single evaluation.
        """
        averages = [
            matches[-1]
            for matches in self.matches.values()
            if len(matches) >= _MIN_MATCHES or matches[-1].is_unmistakable
        ]
        return tuple({average.metric: average for average in reversed(averages)}.values())

    def mistaken_numbers(self) -> tuple[MistakenNumber, ...]:
        """Return the variables that were the same mistaken metric after several evaluations, one for each metric."""
        numbers = [matches[-1] for matches in self.mistakes.values() if len(matches) >= _MIN_MATCHES]
        return tuple({number.metric.metric: number for number in reversed(numbers)}.values())


def _fits(scores: Tensor, targets: Tensor) -> bool:
    """Check whether targets have one value for each row, each score, or all classes at a position."""
    positions = [scores.shape[:axis] + scores.shape[axis + 1 :] for axis in range(1, scores.dim())]
    return targets.numel() in (len(scores), scores.numel()) or (scores.dim() > 2 and targets.shape in positions)


def returns_mean(loss_fn: Any) -> bool:
    """Check whether a loss of torch returns the mean over rows, whose weights are equal."""
    if isinstance(loss_fn, nn.Module):
        is_torch_loss = type(loss_fn).__module__ == "torch.nn.modules.loss"
        return (
            is_torch_loss and getattr(loss_fn, "reduction", "") == "mean" and getattr(loss_fn, "weight", None) is None
        )
    return getattr(loss_fn, "__module__", "") == "torch.nn.functional"


def _whole_sets(batches: list[_Batch]) -> Iterator[_WholeSet]:
    """Yield scores and targets of all batches, for each tensor of targets that fits the scores."""
    for index in range(min((len(targets) for _, targets in batches), default=0)):
        pairs = [(to_array(scores), to_array(targets[index])) for scores, targets in batches]
        if len({(scores.shape[1:], targets.shape[1:]) for scores, targets in pairs}) == 1:
            yield pairs


def _concatenate(pairs: _WholeSet) -> tuple[_Array, _Array]:
    scores, targets = zip(*pairs, strict=True)
    return np.concatenate(scores), np.concatenate(targets)


def _mistaken_metrics(pairs: _WholeSet, ignored: int) -> list[tuple[MistakenMetric, int]]:
    """Return the mistaken metrics of all rows, each with the number of rows."""
    scores, targets = _concatenate(pairs)
    return [(mistake, len(scores)) for mistake in mistaken_metrics(scores, targets, ignored)]


def _batch_means(whole_sets: list[_WholeSet]) -> Iterator[_Expected]:
    """Yield each metric, its mean over batches, its different value on all rows, and the number of rows."""
    for pairs in whole_sets:
        whole = whole_set_metrics(*_concatenate(pairs))
        by_batch = [whole_set_metrics(*pair) for pair in pairs]
        for metric, value in whole.items():
            mean = float(np.mean([values.get(metric, math.nan) for values in by_batch]))
            is_different = abs(mean - value) > _MIN_DIFFERENCE * max(abs(mean), abs(value))
            if math.isfinite(mean) and is_different:
                yield metric, mean, value, sum(len(scores) for scores, _ in pairs), ""


def _uneven_means(whole_sets: list[_WholeSet]) -> Iterator[_Expected]:
    """Yield metrics that are means over rows, if their mean over batches of other sizes differs from it."""
    for pairs in whole_sets:
        sizes = [len(scores) for scores, _ in pairs]
        for metric, values in _row_means(pairs).items():
            mean, whole = float(np.mean(values)), float(np.average(values, weights=sizes))
            if len(set(sizes)) > 1 and abs(mean - whole) > _MIN_DIFFERENCE * abs(whole):
                yield metric, mean, whole, sum(sizes), "equal weights"


def _row_means(pairs: _WholeSet) -> dict[str, list[float]]:
    """Return the values of each batch of the accuracy, or of the mean absolute and squared errors."""
    first_scores, first_targets = pairs[0]
    if first_scores.size == first_targets.size and not np.isin(first_targets, (0.0, 1.0)).all():
        errors = [scores.reshape(targets.shape) - targets for scores, targets in pairs]
        return {
            "mean absolute error": [float(np.abs(error).mean()) for error in errors],
            "mean squared error": [float((error**2).mean()) for error in errors],
        }
    if first_scores.ndim == 2 and first_scores.shape[1] > 1 and len(first_scores) == first_targets.size:
        return {"accuracy": [float((scores.argmax(1) == targets.ravel()).mean()) for scores, targets in pairs]}
    return {}


def to_array(values: Tensor) -> _Array:
    """Return the values of a tensor as an array, so that no call of torch is recorded in the user's evaluation."""
    return np.atleast_1d(values.detach().double().cpu().numpy())
