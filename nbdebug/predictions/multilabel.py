"""The prediction table of samples that may have several labels at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.labels import label_metrics, per_label
from nbdebug.metrics.number import Number
from nbdebug.metrics.per_class import PerClass
from nbdebug.predictions.arrays import array, indexed
from nbdebug.predictions.grid import Grid
from nbdebug.predictions.query import Rows
from nbdebug.predictions.table import Table, fits

if TYPE_CHECKING:
    pass

Truths = NDArray[np.bool_]
Floats = NDArray[np.float32]
Form = Literal["logits", "probabilities"]
WAYS = ("hit", "missed", "false alarm", "rightly absent")
HALF = 0.5


@dataclass(frozen=True, kw_only=True)
class MultiLabel(Table):
    """Which labels each sample has, and which were said of it; both rows × labels.

    ``chances`` are the probabilities that were said, where there were scores; what reaches the ``thresholds``, one a
    label, is predicted. A sample stands in one cell of the grid for each label.
    """

    task: ClassVar[str] = "multi-label"
    apart: ClassVar[tuple[str, ...]] = ("thresholds",)

    target: Truths
    prediction: Truths
    labels: tuple[str, ...]
    chances: Floats | None = None
    thresholds: Floats | None = None

    @classmethod
    def of(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        threshold: Any = HALF,
        form: Form | None = None,
        loss: Any = None,
        index: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> MultiLabel:
        """A table of arrays, tensors or lists, rows × labels: logits, probabilities, or 0 and 1.

        ``form`` says what scores are where it cannot be seen. Raises SetupError for what does not fit.
        """
        scores, target = array(predictions), truths(targets)
        fits("predictions", len(scores), len(target))
        if scores.shape != target.shape:
            raise SetupError(f"predictions has shape {scores.shape}; expected {target.shape}, as targets. Reshape it.")
        labels = label_names(class_names, target.shape[1])
        if scores.dtype.kind != "f" and np.isin(scores, (0, 1)).all():
            wrong = (scores.astype(bool) != target).sum(1)
            table = cls(target=target, prediction=scores.astype(bool), labels=labels, columns={"wrong labels": wrong})
        else:
            table = scored(scores.astype(np.float32), target, labels, form, loss).with_threshold(threshold)
        return table.replaced(index=indexed(index, len(table))).with_columns(columns or {})

    def with_threshold(self, threshold: float | Sequence[float] | Mapping[str, float]) -> MultiLabel:
        """The same with other thresholds: one for all labels, one for each, or by label, the others as they are.

        Raises SetupError without scores, for a label that there is not, and for thresholds of another number.
        """
        if self.chances is None:
            raise SetupError("threshold has no scores to cut; expected probabilities. Pass scores as predictions=.")
        found = np.full(len(self.labels), HALF, np.float32) if self.thresholds is None else self.thresholds.copy()
        if isinstance(threshold, Mapping):
            for label, value in threshold.items():
                found[place(label, self.labels)] = value
        else:
            given = np.asarray(threshold, np.float32)
            if given.ndim and given.shape != found.shape:
                raise SetupError(f"threshold has {given.size} values; expected {found.size}. Give one for each label.")
            found[:] = given
        prediction = self.chances >= found
        wrong = (prediction != self.target).sum(1)
        margin = np.abs(self.chances - found).min(1)
        columns = {**self.columns, "wrong labels": wrong, "margin": margin}
        return self.replaced(prediction=prediction, thresholds=found, columns=columns)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.target)

    @cached_property
    def counts(self) -> Counts:
        """Hits, misses, false alarms and right absences of each label."""
        hits = np.count_nonzero(self.target & self.prediction, axis=0)
        there, said = np.count_nonzero(self.target, axis=0), np.count_nonzero(self.prediction, axis=0)
        absent = len(self) - there - said + hits
        return np.stack([hits, there - hits, said - hits, absent], 1).astype(np.int64)

    @cached_property
    def grid(self) -> Grid:
        """Each label with how often it was hit, missed, said where it is not, and rightly left out."""
        return Grid(self.counts, self.labels, WAYS, "label", "outcome", diagonal=False, good=(0, 3))

    def in_cell(self, row: int, column: int) -> Rows:
        """The rows in which a label was hit, missed, a false alarm, or rightly absent."""
        there, said = column in (0, 1), column in (0, 2)
        return np.flatnonzero((self.target[:, row] == there) & (self.prediction[:, row] == said))

    def said(self, row: int) -> dict[str, str]:
        """The labels, and those that were predicted."""
        both = {"target": self.target[row], "prediction": self.prediction[row]}
        words = {what: ", ".join(self.labels[i] for i in np.flatnonzero(one)) for what, one in both.items()}
        return {what: text or "none" for what, text in words.items()}

    @property
    def worst(self) -> str:
        """The loss, else how many labels are wrong."""
        return super().worst or "wrong labels"

    @cached_property
    def right(self) -> Truths:
        """Which rows have every label right."""
        return np.asarray((self.target == self.prediction).all(1))

    @cached_property
    def per_label(self) -> PerClass:
        """Precision, recall and F1 of each label, with intervals."""
        return per_label(self.counts)

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """Exact match, Hamming loss, micro and macro F1, with intervals."""
        return label_metrics(self.target, self.prediction, self.counts)

    def headline(self) -> str:
        """The result in a line."""
        found = self.metrics
        return (
            f"micro F1 {found['micro_f1']}, macro F1 {found['macro_f1'].value:.3f}; all labels right in "
            f"{found['exact_match'].percent()} of {len(self)} samples"
        )

    def main(self) -> dict[str, NDArray[Any]]:
        """Whether each label is there, and whether it was predicted."""
        both = (("target", self.target), ("prediction", self.prediction))
        return {f"{what} {name}": one[:, i] for i, name in enumerate(self.labels) for what, one in both}


def truths(targets: Any) -> Truths:
    """Rows × labels of 0 and 1; raises SetupError for anything else."""
    found = array(targets)
    if found.ndim == 1 and len(found) and found.dtype.kind in "iufb":
        found = found[:, None]
    if found.ndim != 2 or found.dtype.kind not in "iufb":
        raise SetupError(
            f"targets has shape {found.shape}; expected rows × labels of 0 and 1. Use a MultiLabelBinarizer."
        )
    if found.dtype.kind != "b" and not np.isin(found, (0, 1)).all():
        odd = found[~np.isin(found, (0, 1))][0]
        raise SetupError(f"targets holds {odd:.4g}; expected 0 and 1. Cut soft labels at a threshold.")
    return found.astype(bool)


def label_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The names of the labels; without any the numbers are the names."""
    if names is not None and len(names) != count:
        raise SetupError(f"class_names has {len(names)} names; expected {count}. Give a name for each label.")
    return tuple(map(str, names)) if names is not None else tuple(map(str, range(count)))


def place(label: Any, labels: tuple[str, ...]) -> int:
    """Where a label is; raises SetupError where it is not."""
    if label not in labels:
        raise SetupError(f"threshold is for {label!r}; expected one of {', '.join(labels)}. Take one of these.")
    return labels.index(label)


def scored(scores: Floats, target: Truths, labels: tuple[str, ...], form: Form | None, loss: Any) -> MultiLabel:
    """A table with probabilities and the loss of each row, the mean over its labels."""
    finite = np.isfinite(scores).all(1)
    some = scores[finite]
    form = form or ("probabilities" if some.size and some.min() >= 0 and some.max() <= 1 else "logits")
    chances = scores if form == "probabilities" else np.asarray(1 / (1 + np.exp(-np.clip(scores, -80, 80))), np.float32)
    if loss is None:
        loss = cross_entropy(scores, target, form)
    notes: tuple[str, ...] = (f"predictions were taken for {form}",)
    if broken := int((~finite).sum()):
        notes += (f"with a score that is no number, which reaches no threshold: {broken} rows",)
    columns = {"loss": np.asarray(array(loss), np.float32)}
    fits("loss", len(columns["loss"]), len(target))
    columns["labels"] = target.sum(1)
    return MultiLabel(target=target, prediction=target, labels=labels, chances=chances, columns=columns, notes=notes)


def cross_entropy(scores: Floats, target: Truths, form: Form) -> Floats:
    """The mean over the labels of the binary cross-entropy; that of probabilities is cut at 100 as torch does it."""
    if form == "logits":
        each = np.maximum(scores, 0) - scores * target + np.log1p(np.exp(-np.abs(scores)))
    else:
        with np.errstate(divide="ignore"):
            each = -np.maximum(np.log(np.where(target, scores, 1 - scores)), -100)
    return np.asarray(each.mean(1), np.float32)
