"""The lowest rungs: a constant, a linear model and a kernel ridge regression, fitted on parts of the training rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.input_features import (
    Matrix,
    concatenate_padded,
    feature_matrix,
    read_training_rows,
    standardize,
    to_input_rows,
)
from nbdebug.baselines.reference_learner import Floats, ReferenceLearner, Targets
from nbdebug.exceptions import NotChecked
from nbdebug.measurements import Measurements
from nbdebug.measurements.reference_targets import to_targets
from nbdebug.setup import Setup
from nbdebug.setup.losses import ignore_index
from nbdebug.tools.ladder.result import DataPoint
from nbdebug.tools.treatments.score import ScoreMeter

LEARNERS = ("constant", "linear", "kernel ridge")
_READ_SECONDS = 5.0
_PENALTY = 1.0  # of the ridge regression on standardized features


def score_learners(setup: Setup, meter: ScoreMeter, shares: Sequence[float]) -> Iterator[DataPoint]:
    """Yield the score of each learner on the rows of the meter, after it was fitted on each share of the training rows.

    Up to 5,000 training rows are read. Raises NotChecked if inputs or targets cannot be read as rows.
    """
    x, targets, evaluated = _read_rows(setup, meter)
    for share in shares:
        count = max(round(share * len(x)), 2)
        part, part_targets = x[:count], targets.take(slice(count))
        predictions = {
            "constant": np.broadcast_to(part_targets.columns.mean(0), (len(evaluated), targets.columns.shape[1])),
            "linear": _linear_predictions(part, part_targets, evaluated),
            "kernel ridge": ReferenceLearner(part, part_targets).predict(evaluated),
        }
        for name in LEARNERS:
            score = meter.score_predictions(_with_width(predictions[name], meter.targets))
            yield DataPoint(name, share, count, (score,))


def _read_rows(setup: Setup, meter: ScoreMeter) -> tuple[Matrix, Targets, Matrix]:
    """Return standardized training features with their targets, and the features of the rows that are scored."""
    if meter.targets is None:
        raise NotChecked("there is no single target for each sample")
    train = read_training_rows(setup, time.perf_counter() + _READ_SECONDS)
    scored = to_input_rows(meter.batches)
    if len(train.parts) != len(scored.parts):
        raise NotChecked("training and validation have different numbers of input tensors")
    pairs = zip(train.parts, scored.parts, strict=True)
    features = feature_matrix([concatenate_padded(pair) for pair in pairs])
    task = Measurements(setup)["task"]
    targets, labeled = to_targets(task, meter.loss_kind, train.targets, ignore_index(setup.loss_fn))
    x, evaluated = standardize(features[: len(train)][labeled], features[len(train) :][meter.scored_rows])
    return np.asarray(x, np.float32), targets.take(labeled), np.asarray(evaluated, np.float32)


def _linear_predictions(x: Matrix, targets: Targets, evaluated: Matrix) -> Floats:
    from sklearn.linear_model import Ridge

    predictions: Floats = Ridge(alpha=_PENALTY).fit(x, targets.columns).predict(evaluated)
    return predictions.reshape(len(evaluated), -1)


def _with_width(predictions: NDArray[np.float64], targets: Targets | None) -> Floats:
    """Return predictions with a column for each class of the scored rows, although one part may lack a class."""
    assert targets is not None
    width = targets.columns.shape[1]
    missing = max(width - predictions.shape[1], 0)
    return np.pad(predictions, ((0, 0), (0, missing)))[:, :width]
