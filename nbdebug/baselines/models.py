"""Constant, linear and nearest-neighbor models for each kind of table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.comparison import (
    MAX_LOSS,
    MODEL,
    Floats,
    PredictorScores,
    Rows,
    classification_scores,
    cross_entropies,
    score_labels,
    score_values,
)
from nbdebug.baselines.input_features import Matrix
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.predictions.class_scores import detect_form, to_probabilities
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.labels import encode_labels
from nbdebug.predictions.regression import RegressionTable
from nbdebug.predictions.table import PredictionTable

# Rows added to each class so that no probability is 0: Krichevsky and Trofimov 1981, doi:10.1109/TIT.1981.1056331.
_PSEUDO_COUNT = 0.5
_SHUFFLED_DESCRIPTION = "your model with its predictions shuffled over the rows"
_INVERSE_REGULARIZATION = 0.1  # inverse of the penalty, for standardized columns
_RIDGE_PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
_ITERATIONS_PER_FIT, _MAX_FITS = 25, 12  # iterations per fit, and number of warm-started fits
_MAX_LOGISTIC_CLASSES = 100  # beyond these, a closed form replaces logistic regression
_N_NEIGHBORS, _MAX_DISTANCE_OPERATIONS = 5, 10_000_000_000
_MODEL_DESCRIPTION = "your model"
_LINEAR_DESCRIPTION = "a linear model of the inputs"
_NEAREST_DESCRIPTION = "a vote of the five nearest training rows"


def score_constant_classes(
    rows: Rows, target: Any, train_labels: Any, classes: Sequence[str]
) -> Iterator[PredictorScores]:
    """Score the most common class of the training labels, and a guess with their frequencies."""
    counts = np.bincount(train_labels, minlength=len(classes)).astype(np.float64)
    top = int(counts.argmax())
    yield score_labels("majority", f"always {classes[top]}", rows, target, np.full(len(target), top))
    prior = (counts + _PSEUDO_COUNT) / (counts + _PSEUDO_COUNT).sum()
    target_prior = prior[target]
    yield PredictorScores(
        "prior",
        "a random guess by class frequency",
        rows,
        classification_scores(target_prior, target, -np.log(target_prior)),
    )


def score_constant_values(rows: Rows, target: Floats, train_targets: Floats) -> Iterator[PredictorScores]:
    """Score the mean and the median of the training targets."""
    for name, value in (("mean", float(np.mean(train_targets))), ("median", float(np.median(train_targets)))):
        yield score_values(name, f"always {value:.4g}", rows, target, value)


def score_shuffled_classes(rows: Rows, target: Any, prediction: Any, probabilities: Any) -> PredictorScores:
    """Score the predictions of the model after shuffling them over the rows.

    The result is the exact mean over all shuffles. In eval mode this equals shuffling the inputs.
    """
    n_others = max(len(rows) - 1, 1)
    counts = np.bincount(prediction[prediction >= 0], minlength=int(target.max(initial=0)) + 1)
    correct_probability = (counts[target] - (prediction == target)) / n_others
    loss = None
    if probabilities is not None:
        with np.errstate(divide="ignore"):
            log_probabilities = np.maximum(np.log(np.asarray(probabilities, np.float64)), -MAX_LOSS)
        loss = -(log_probabilities.sum(0)[target] - log_probabilities[np.arange(len(target)), target]) / n_others
    return PredictorScores(
        "blind", _SHUFFLED_DESCRIPTION, rows, classification_scores(correct_probability, target, loss)
    )


def score_shuffled_values(rows: Rows, target: Floats, prediction: Floats) -> PredictorScores:
    """Score real-valued predictions after shuffling them over the rows."""
    n_others, ordered = max(len(rows) - 1, 1), np.sort(prediction)
    squared_sums = len(prediction) * (target**2) - 2 * target * prediction.sum() + (prediction**2).sum()
    positions = np.searchsorted(ordered, target)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    below, above = (
        target * positions - sums[positions],
        sums[-1] - sums[positions] - target * (len(prediction) - positions),
    )
    residuals = target - prediction
    scores = {
        "mean squared error": squared_sums - residuals**2,
        "mean absolute error": below + above - np.abs(residuals),
    }
    return PredictorScores(
        "blind", _SHUFFLED_DESCRIPTION, rows, {name: np.maximum(total, 0) / n_others for name, total in scores.items()}
    )


def _fit_logistic_regression(
    x: Matrix, y: Any, evaluated: Matrix, classes: int, deadline: float
) -> tuple[Any, Any, bool]:
    """Fit a logistic regression; return labels, probabilities (rows, classes), and whether it converged.

    With more than 100 classes it is a ridge classifier, which returns labels only.
    """
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    if len(np.unique(y)) > _MAX_LOGISTIC_CLASSES:
        return RidgeClassifier(alpha=10.0).fit(x, y).predict(evaluated), None, True
    model = LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=_ITERATIONS_PER_FIT, warm_start=True)
    has_converged = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(_MAX_FITS):
            model.fit(x, y)
            has_converged = bool((model.n_iter_ < _ITERATIONS_PER_FIT).all())
            if has_converged or time.perf_counter() > deadline:
                break
    probabilities = np.zeros((len(evaluated), classes))
    probabilities[:, model.classes_] = model.predict_proba(evaluated)
    return probabilities.argmax(1), probabilities, has_converged


def _fit_ridge_regression(x: Matrix, y: Any, evaluated: Matrix) -> Any:
    """Fit a ridge regression; the penalty is chosen by cross-validation."""
    from sklearn.linear_model import RidgeCV

    return RidgeCV(alphas=_RIDGE_PENALTIES).fit(x, y).predict(evaluated)


def _fits_distance_budget(x: Matrix, evaluated: Matrix) -> bool:
    """Return whether all distances can be computed in about a second."""
    return bool(2 * len(x) * len(evaluated) * x.shape[1] <= _MAX_DISTANCE_OPERATIONS)


def _nearest_neighbor_labels(x: Matrix, y: Any, evaluated: Matrix) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(min(_N_NEIGHBORS, len(x)), algorithm="brute").fit(x, y).predict(evaluated)


def _nearest_neighbor_values(x: Matrix, y: Any, evaluated: Matrix) -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(min(_N_NEIGHBORS, len(x)), algorithm="brute").fit(x, y).predict(evaluated)


class BaselineTask(Protocol):
    """A table whose rows can also be predicted by baselines."""

    is_evaluated: NDArray[np.bool_]

    def prepare_targets(self, targets: Any, ignored: int) -> Any:
        """Return training targets in the form of the table; raise SetupError or NotChecked if they do not fit."""

    def score_model(self, rows: Rows) -> PredictorScores:
        """Score the model."""

    def score_constants(self, rows: Rows, train_targets: Any) -> Iterator[PredictorScores]:
        """Score constant predictions, computed from the rows themselves if there are no training targets."""

    def score_shuffled(self, rows: Rows) -> PredictorScores:
        """Score the predictions of the model, shuffled over the rows."""

    def score_learners(
        self, x: Matrix, y: Any, rows: Rows, evaluated: Matrix, deadline: float, notes: list[str]
    ) -> Iterator[PredictorScores]:
        """Score simple models on ``rows``, whose input features are ``evaluated``."""


def get_baseline_task(table: PredictionTable) -> BaselineTask:
    """Return the task of a table; raise SetupError if there are no baselines for it."""
    if isinstance(table, ClassificationTable):
        return _ClassificationTask(table)
    if not isinstance(table, RegressionTable) or np.shape(table.target)[1:] not in ((), (1,)):
        raise SetupError(
            f"the task of the table is {table.task or 'unknown'}; expected one class or one number per row."
        )
    return _RegressionTask(
        *(np.asarray(column, np.float64).reshape(len(table)) for column in (table.target, table.prediction))
    )


class _ClassificationTask:
    """Single-label classification."""

    def __init__(self, table: ClassificationTable) -> None:
        self.table, self.is_evaluated = table, table.target >= 0
        self.score_form = detect_form(table.scores) if table.scores is not None else None

    def prepare_targets(self, targets: Any, ignored: int) -> Any:
        """Return labels as class indices."""
        names = self.table.classes
        labels, _, _ = encode_labels(targets, None, names, len(names), ignored)
        return labels

    def score_model(self, rows: Rows) -> PredictorScores:
        """Score the labels, and the loss if there are scores."""
        loss = self.table.columns.get("loss")
        row_loss = None if loss is None else np.nan_to_num(loss[rows].astype(np.float64), nan=MAX_LOSS)
        return score_labels(
            MODEL, _MODEL_DESCRIPTION, rows, self.table.target[rows], self.table.prediction[rows], row_loss
        )

    def score_constants(self, rows: Rows, train_targets: Any) -> Iterator[PredictorScores]:
        """Score the majority class and the class prior."""
        target = self.table.target[rows]
        labels = target if train_targets is None else train_targets[train_targets >= 0]
        return score_constant_classes(rows, target, labels, self.table.classes)

    def score_shuffled(self, rows: Rows) -> PredictorScores:
        """Score shuffled labels, and shuffled probabilities if all scores are stored."""
        scores, class_probabilities = self.table.scores, None
        if scores is not None and self.score_form is not None and bool(np.isfinite(scores[rows]).all()):
            class_probabilities = to_probabilities(scores[rows], self.score_form).astype(np.float64)
        return score_shuffled_classes(rows, self.table.target[rows], self.table.prediction[rows], class_probabilities)

    def score_learners(
        self, x: Matrix, y: Any, rows: Rows, evaluated: Matrix, deadline: float, notes: list[str]
    ) -> Iterator[PredictorScores]:
        """Score logistic regression, then nearest neighbors."""
        target = self.table.target[rows]
        if len(np.unique(y)) < 2:
            raise NotChecked("the training rows that were read are all of one class")
        labels, probabilities, has_converged = _fit_logistic_regression(
            x, y, evaluated, len(self.table.classes), deadline
        )
        if not has_converged:
            notes.append("the linear model was stopped before it converged; pass a larger seconds=")
        yield score_labels(
            "linear",
            _LINEAR_DESCRIPTION,
            rows,
            target,
            labels,
            None if probabilities is None else cross_entropies(probabilities, target),
        )
        if _fits_distance_budget(x, evaluated):
            yield score_labels("nearest", _NEAREST_DESCRIPTION, rows, target, _nearest_neighbor_labels(x, y, evaluated))
        else:
            notes.append("nearest neighbors were left out: there are too many rows")


class _RegressionTask:
    """Regression with one output."""

    def __init__(self, target: Floats, prediction: Floats) -> None:
        self.target, self.prediction = target, prediction
        self.is_evaluated = np.isfinite(target) & np.isfinite(prediction)

    def prepare_targets(self, targets: Any, ignored: int) -> Any:
        """Return the targets, one number per row."""
        values = np.asarray(targets, np.float64)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.ndim != 1:
            raise NotChecked("the training targets are not one number per row")
        return values

    def score_model(self, rows: Rows) -> PredictorScores:
        """Score the predicted numbers."""
        return score_values(MODEL, _MODEL_DESCRIPTION, rows, self.target[rows], self.prediction[rows])

    def score_constants(self, rows: Rows, train_targets: Any) -> Iterator[PredictorScores]:
        """Score the mean and the median."""
        target = self.target[rows]
        return score_constant_values(
            rows, target, target if train_targets is None else train_targets[np.isfinite(train_targets)]
        )

    def score_shuffled(self, rows: Rows) -> PredictorScores:
        """Score shuffled predictions."""
        return score_shuffled_values(rows, self.target[rows], self.prediction[rows])

    def score_learners(
        self, x: Matrix, y: Any, rows: Rows, evaluated: Matrix, deadline: float, notes: list[str]
    ) -> Iterator[PredictorScores]:
        """Score ridge regression, then nearest neighbors."""
        target = self.target[rows]
        yield score_values("linear", _LINEAR_DESCRIPTION, rows, target, _fit_ridge_regression(x, y, evaluated))
        if _fits_distance_budget(x, evaluated):
            yield score_values("nearest", _NEAREST_DESCRIPTION, rows, target, _nearest_neighbor_values(x, y, evaluated))
        else:
            notes.append("nearest neighbors were left out: there are too many rows")
