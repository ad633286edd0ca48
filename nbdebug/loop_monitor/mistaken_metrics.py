"""Numbers of a loop that equal a metric of exchanged arguments, of decisions for scores, or of labels to ignore."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.loop_monitor.whole_set_metrics import area_under_curve, binary_metrics, count_correct
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assigned_names, call_name, file_nodes, read_names, syntax_tree

_MIN_DIFFERENCE = 1e-3  # between the mistaken metric and the correct one
_ROUNDING = 2e-5  # relative; the user computes in single precision
_NO_CLASS = -1
_Array = NDArray[np.float64]
MistakeKind = Literal["exchanged", "decisions", "ignored"]


@dataclass(frozen=True)
class MistakenMetric:
    """A wrong value of a metric on some rows, and the correct one.

    Its kind is "exchanged" if predictions and targets take each other's place, "decisions" if predicted classes take
    the place of scores, and "ignored" if labels that the loss ignores count too. ``names`` matches what the metric is
    called; None if its value alone identifies it.
    """

    metric: str
    kind: MistakeKind
    value: float
    correct: float
    names: re.Pattern[str] | None

    def is_value_of(self, name: str, file: str, number: float) -> bool:
        """Check whether a variable of a file has this wrong value, and is called so or stores the result of a call."""
        if not math.isclose(number, self.value, rel_tol=_ROUNDING):
            return False
        return self.names is None or self.names.search(name) is not None or _stores_call(file, name, self.names)


@dataclass(frozen=True)
class MistakenNumber:
    """A variable that was a mistaken metric in several evaluations, the latest of them, and the line of the metric."""

    name: str
    metric: MistakenMetric
    rows: int
    line: SourceLine


_AUC = re.compile(r"auc|auroc|roc", re.IGNORECASE)
_PRECISION = re.compile(r"prec|ppv", re.IGNORECASE)
_RECALL = re.compile(r"recall|sensitiv|tpr", re.IGNORECASE)
_R2 = re.compile(r"r2|r_2|determination", re.IGNORECASE)
_CALLS = {"AUC": _AUC, "precision": _PRECISION, "recall": _RECALL, "R²": _R2}


def mistaken_metrics(scores: _Array, targets: _Array, ignored: int) -> list[MistakenMetric]:
    """Return the mistaken metrics that outputs and targets allow, if they differ from the correct ones.

    Shapes: scores (rows,) or (rows, outputs), targets of the same size, or (rows,) with the class of each row. Scores
    may also have further axes, and targets all axes but that of the classes. The loss ignores the class ``ignored``.
    """
    with np.errstate(all="ignore"):
        mistakes = [*_mistakes(scores, targets), *_accuracies_with_ignored(scores, targets, ignored)]
    return [
        mistake
        for mistake in mistakes
        if math.isfinite(mistake.value) and abs(mistake.value - mistake.correct) > _MIN_DIFFERENCE
    ]


def _mistakes(scores: _Array, targets: _Array) -> Iterator[MistakenMetric]:
    if scores.size == targets.size:
        if np.isin(targets, (0.0, 1.0)).all():
            for threshold in (0.0, 0.5):
                yield from _binary_mistakes(scores.ravel(), scores.ravel() > threshold, targets.ravel() > 0.5)
        else:
            scores = scores.reshape(targets.shape)
            squares = ((scores - targets) ** 2).sum()
            exchanged, correct = (1 - squares / ((part - part.mean()) ** 2).sum() for part in (scores, targets))
            yield MistakenMetric("R²", "exchanged", float(exchanged), float(correct), None)
    elif scores.ndim == 2 and scores.shape[1] == 2 and len(scores) == targets.size and np.isin(targets, (0, 1)).all():
        margin = scores[:, 1] - scores[:, 0]
        yield from _binary_mistakes(margin, margin > 0, targets.ravel() > 0.5)


def _accuracies_with_ignored(scores: _Array, targets: _Array, ignored: int) -> Iterator[MistakenMetric]:
    """Yield the accuracy on all labels beside the one on labels that count."""
    is_ignored = targets == ignored
    if not is_ignored.any() or is_ignored.all() or scores.size == targets.size:
        return
    counted = np.where(is_ignored, _NO_CLASS, targets)
    for correct, correct_counted in zip(count_correct(scores, targets), count_correct(scores, counted), strict=True):
        accuracy, accuracy_counted = correct / targets.size, correct_counted / (~is_ignored).sum()
        yield MistakenMetric("accuracy", "ignored", accuracy, float(accuracy_counted), None)


def _binary_mistakes(
    scores: _Array, predicted: NDArray[np.bool_], positive: NDArray[np.bool_]
) -> Iterator[MistakenMetric]:
    metrics = dict(binary_metrics(predicted, positive, ""))
    precision, recall = metrics["precision"], metrics["recall"]
    yield MistakenMetric("precision", "exchanged", recall, precision, _PRECISION)
    yield MistakenMetric("recall", "exchanged", precision, recall, _RECALL)
    area = area_under_curve(predicted.astype(np.float64), positive)
    yield MistakenMetric("AUC", "decisions", area, area_under_curve(scores, positive), _AUC)


def _stores_call(file: str, name: str, calls: re.Pattern[str]) -> bool:
    """Check whether a statement of a file that stores a variable, or appends to it, calls a function of that name."""
    variable, tree = re.split(r"[.\[]", name)[0], syntax_tree(file)
    statements = [node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.Expr))] if tree else []
    return any(
        variable in read_names(statement) | assigned_names(statement)
        and any(calls.search(call_name(node)) for node in ast.walk(statement))
        for statement in statements
    )


def metric_line(metric: str, line: SourceLine) -> SourceLine:
    """Return the only line of a file that calls or defines a metric, or else ``line``, which is in that file.

    A call within a formatted string only shows the metric.
    """
    if metric not in _CALLS:
        return line
    tree, names = syntax_tree(line.file), _CALLS[metric]
    nodes = file_nodes(tree)
    shown = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    calls = {node.lineno for node in nodes if names.search(call_name(node)) and node not in shown}  # type: ignore[attr-defined]
    return SourceLine(line.file, calls.pop(), line.function) if len(calls) == 1 else line
