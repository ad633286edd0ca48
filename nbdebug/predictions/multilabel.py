"""The prediction table of multi-label classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.classification import Counts, PerClassMetrics
from nbdebug.metrics.multilabel import multilabel_metrics, per_label_metrics
from nbdebug.predictions.labels import parse_index, resolve_names, to_array
from nbdebug.predictions.table import Grid, PredictionTable, Rows, check_length
from nbdebug.statistics.intervals import Number

_LabelMatrix = NDArray[np.bool_]
_Floats = NDArray[np.float32]
ScoreForm = Literal["logits", "probabilities"]
_OUTCOMES = ("hit", "missed", "false alarm", "correctly absent")
_DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, kw_only=True)
class MultiLabelTable(PredictionTable):
    """True and predicted labels of each sample, both rows × labels.

    ``chances`` are the predicted probabilities, if there were scores; labels that reach the ``thresholds``, one per
    label, are predicted. A sample is in one cell of the grid for each label.
    """

    task: ClassVar[str] = "multi-label"
    arrays_without_rows: ClassVar[tuple[str, ...]] = ("thresholds",)

    target: _LabelMatrix
    prediction: _LabelMatrix
    labels: tuple[str, ...]
    chances: _Floats | None = None
    thresholds: _Floats | None = None

    @classmethod
    def from_arrays(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        threshold: Any = _DEFAULT_THRESHOLD,
        form: ScoreForm | None = None,
        loss: Any = None,
        index: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> MultiLabelTable:
        """Return a table of arrays, tensors or lists, rows × labels: logits, probabilities, or 0 and 1.

        ``form`` says what the scores are if their values do not tell. Raises SetupError for arguments that do not
        match.
        """
        scores, target = to_array(predictions), _parse_targets(targets)
        check_length("predictions", len(scores), len(target))
        if scores.shape != target.shape:
            raise SetupError(f"predictions has shape {scores.shape}; expected {target.shape}, as targets. Reshape it.")
        labels = resolve_names("class_names", class_names, target.shape[1], "label")
        if scores.dtype.kind != "f" and np.isin(scores, (0, 1)).all():
            wrong = (scores.astype(bool) != target).sum(1)
            table = cls(target=target, prediction=scores.astype(bool), labels=labels, columns={"wrong labels": wrong})
        else:
            table = _table_from_scores(scores.astype(np.float32), target, labels, form, loss).with_threshold(threshold)
        return table.replace(index=parse_index(index, len(table))).with_columns(columns or {})

    def with_threshold(self, threshold: float | Sequence[float] | Mapping[str, float]) -> MultiLabelTable:
        """Return the table with other thresholds: one for all labels, one per label, or a mapping of some labels.

        Raises SetupError without scores, for an unknown label, and for another number of thresholds.
        """
        if self.chances is None:
            raise SetupError("threshold needs scores; expected probabilities. Pass scores as predictions=.")
        thresholds = (
            np.full(len(self.labels), _DEFAULT_THRESHOLD, np.float32)
            if self.thresholds is None
            else self.thresholds.copy()
        )
        if isinstance(threshold, Mapping):
            for label, value in threshold.items():
                thresholds[_get_label_index(label, self.labels)] = value
        else:
            values = np.asarray(threshold, np.float32)
            if values.ndim and values.shape != thresholds.shape:
                raise SetupError(f"threshold has {values.size} values; expected {thresholds.size}. Pass one per label.")
            thresholds[:] = values
        prediction = self.chances >= thresholds
        wrong = (prediction != self.target).sum(1)
        margin = np.abs(self.chances - thresholds).min(1)
        columns = {**self.columns, "wrong labels": wrong, "margin": margin}
        return self.replace(prediction=prediction, thresholds=thresholds, columns=columns)

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def counts(self) -> Counts:
        """Return true positives, false negatives, false positives and true negatives of each label."""
        true_positives = np.count_nonzero(self.target & self.prediction, axis=0)
        n_true, n_predicted = np.count_nonzero(self.target, axis=0), np.count_nonzero(self.prediction, axis=0)
        true_negatives = len(self) - n_true - n_predicted + true_positives
        return np.stack(
            [true_positives, n_true - true_positives, n_predicted - true_positives, true_negatives], 1
        ).astype(np.int64)

    @cached_property
    def grid(self) -> Grid:
        """Return the outcome counts of each label."""
        return Grid(self.counts, self.labels, _OUTCOMES, "label", "outcome", diagonal=False, correct_columns=(0, 3))

    def rows_in_cell(self, row: int, column: int) -> Rows:
        """Return the rows in which a label has this outcome."""
        is_true, is_predicted = column in (0, 1), column in (0, 2)
        return np.flatnonzero((self.target[:, row] == is_true) & (self.prediction[:, row] == is_predicted))

    def describe_row(self, row: int) -> dict[str, str]:
        """Return the labels, and the predicted labels."""
        label_masks = {"target": self.target[row], "prediction": self.prediction[row]}
        texts = {kind: ", ".join(self.labels[i] for i in np.flatnonzero(mask)) for kind, mask in label_masks.items()}
        return {kind: text or "none" for kind, text in texts.items()}

    @property
    def severity_column(self) -> str:
        """Return the loss, else the number of wrong labels."""
        return super().severity_column or "wrong labels"

    @cached_property
    def right(self) -> _LabelMatrix:
        """Return which rows have every label correct."""
        return np.asarray((self.target == self.prediction).all(1))

    @cached_property
    def per_label_metrics(self) -> PerClassMetrics:
        """Return precision, recall and F1 of each label, with intervals."""
        return per_label_metrics(self.counts)

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """Return exact match, Hamming loss, micro and macro F1, with intervals."""
        return multilabel_metrics(self.target, self.prediction, self.counts)

    def headline(self) -> str:
        """Return the result in one line."""
        metrics = self.metrics
        return (
            f"micro F1 {metrics['micro_f1']}, macro F1 {metrics['macro_f1'].value:.3f}; all labels correct in "
            f"{metrics['exact_match'].percent()} of {len(self)} samples"
        )

    def main_columns(self) -> dict[str, NDArray[Any]]:
        """Return the target and the prediction of each label."""
        matrices = (("target", self.target), ("prediction", self.prediction))
        return {f"{kind} {name}": matrix[:, i] for i, name in enumerate(self.labels) for kind, matrix in matrices}


def _parse_targets(targets: Any) -> _LabelMatrix:
    """Return rows × labels of 0 and 1 as bools; raise SetupError for other values."""
    labels = to_array(targets)
    if labels.ndim == 1 and len(labels) and labels.dtype.kind in "iufb":
        labels = labels[:, None]
    if labels.ndim != 2 or labels.dtype.kind not in "iufb":
        raise SetupError(
            f"targets has shape {labels.shape}; expected rows × labels of 0 and 1. Use a MultiLabelBinarizer."
        )
    if labels.dtype.kind != "b" and not np.isin(labels, (0, 1)).all():
        invalid_value = labels[~np.isin(labels, (0, 1))][0]
        raise SetupError(f"targets holds {invalid_value:.4g}; expected 0 and 1. Apply a threshold to soft labels.")
    return labels.astype(bool)


def _get_label_index(label: Any, labels: tuple[str, ...]) -> int:
    """Return the index of a label; raise SetupError if it is unknown."""
    if label not in labels:
        raise SetupError(f"threshold is for {label!r}; expected one of {', '.join(labels)}. Pass one of these.")
    return labels.index(label)


def _table_from_scores(
    scores: _Floats, target: _LabelMatrix, labels: tuple[str, ...], form: ScoreForm | None, loss: Any
) -> MultiLabelTable:
    """Return a table with probabilities, and the loss of each row averaged over its labels."""
    finite = np.isfinite(scores).all(1)
    finite_scores = scores[finite]
    form = form or (
        "probabilities" if finite_scores.size and finite_scores.min() >= 0 and finite_scores.max() <= 1 else "logits"
    )
    probabilities = (
        scores if form == "probabilities" else np.asarray(1 / (1 + np.exp(-np.clip(scores, -80, 80))), np.float32)
    )
    if loss is None:
        loss = _binary_cross_entropy(scores, target, form)
    notes: tuple[str, ...] = (f"predictions are interpreted as {form}",)
    if n_non_finite := int((~finite).sum()):
        notes += (f"{n_non_finite} rows have a non-finite score, which reaches no threshold",)
    columns = {"loss": np.asarray(to_array(loss), np.float32)}
    check_length("loss", len(columns["loss"]), len(target))
    columns["labels"] = target.sum(1)
    return MultiLabelTable(
        target=target, prediction=target, labels=labels, chances=probabilities, columns=columns, notes=notes
    )


def _binary_cross_entropy(scores: _Floats, target: _LabelMatrix, form: ScoreForm) -> _Floats:
    """Return the mean binary cross-entropy over the labels; that of probabilities is clipped at 100, as in torch."""
    if form == "logits":
        label_losses = np.maximum(scores, 0) - scores * target + np.log1p(np.exp(-np.abs(scores)))
    else:
        with np.errstate(divide="ignore"):
            label_losses = -np.maximum(np.log(np.where(target, scores, 1 - scores)), -100)
    return np.asarray(label_losses.mean(1), np.float32)
