"""Whether what a learner finds in the training rows holds for the validation rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.input_features import Matrix, concatenate_padded, feature_matrix, standardize
from nbdebug.baselines.reference_learner import Floats, ReferenceLearner, Targets
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.partial_streams import check_no_ordered_stream
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup.loaders import get_visited_indices, is_map_style

_MIN_VISITED = 0.5
_MAX_ROWS = 600  # of each split: a kernel ridge of 600 rows takes 0.1 s
_BLOCKS, _IMAGE_AXES, _COLORS = 4, 4, 3
Repair = Literal["reorder", "align"]  # reverse the channels, or standardize the inputs of each split alone
_GROUP_COUNTS, _CLUSTER_STEPS = (8, 16, 32), 12
_MIN_GAIN = 0.05  # of the accuracy, from which the rows are left out in blocks: that takes eight more fits


@dataclass(frozen=True)
class SplitTransfer:
    """Accuracies of kernel ridge regressions on the same validation rows.

    ``across`` is that of one fitted on ``train_rows`` training rows, ``inside`` that of one fitted on the other
    validation rows, and ``within_train`` that of one on training rows that were left out. If ``inside`` is larger,
    rows are left out in blocks of neighbors, since rows of one subject or of one hour tell each other's targets.
    ``aligned`` is ``across`` of validation rows that are standardized by their own statistics; for ``reordered``, the
    channels of images are in reverse order as well.
    ``gain_error`` is the standard error of ``inside`` minus ``across``, and ``train_error`` that of ``within_train``
    minus ``across``, both with neighbors and similar rows as dependent: 500 windows of a few persons are only a few
    observations.
    """

    across: float
    inside: float
    within_train: float
    gain_error: float
    train_error: float
    train_rows: int
    val_rows: int
    aligned: float = 0.0
    reordered: float = 0.0

    @property
    def sigmas(self) -> float:
        """How far ``inside`` exceeds ``across``, in standard errors."""
        return (self.inside - self.across) / max(self.gain_error, 1e-12)

    @property
    def train_sigmas(self) -> float:
        """How far ``within_train`` exceeds ``across``, in standard errors."""
        return (self.within_train - self.across) / max(self.train_error, 1e-12)

    @property
    def repair(self) -> Repair | None:
        """The change of the validation inputs that gains most of what the relation of the splits loses."""
        repair: Repair = "reorder" if self.reordered >= self.aligned else "align"
        score = max(self.reordered, self.aligned)
        return repair if score - self.across > self.inside - score else None


@slow_measurement
def split_transfer(reference: Reference, tables: dict[str, SplitTable]) -> SplitTransfer:
    """How well a learner of up to 600 training rows predicts validation rows, next to one of validation rows."""
    check_no_ordered_stream(reference.setup, tables)
    train, val = reference.rows("train"), reference.rows("val")
    if _visits_a_part(reference.setup.train_loader):
        raise NotChecked("the training loader visits a part of its dataset, which may differ from the rest")
    if train.targets.kind == "values":
        raise NotChecked("the targets are numbers, whose drift looks like another relation")
    if [part.shape[2:] for part in train.parts] != [part.shape[2:] for part in val.parts]:
        raise NotChecked("the inputs of the splits have different shapes")
    if train.targets.columns.shape[1:] != val.targets.columns.shape[1:] and train.targets.kind != "classes":
        raise NotChecked("the targets of the splits have different shapes")
    parts = [concatenate_padded(pair) for pair in zip(train.parts, val.parts, strict=True)]
    features = feature_matrix(parts)
    train_count = len(train.parts[0])
    train_kept, val_kept = train.kept[:_MAX_ROWS], val.kept[:_MAX_ROWS]
    train_x, val_x = standardize(features[train_kept], features[train_count + val_kept])
    train_targets, val_targets = (rows.targets.take(slice(_MAX_ROWS)) for rows in (train, val))
    of_train, of_val = (np.array(rows.indices[:_MAX_ROWS]) for rows in (train, val))
    learner = ReferenceLearner(train_x, train_targets)
    across = _agreement(learner, val_x, val_targets)
    own = features[train_count + val_kept]
    aligned, reordered = _agreement(learner, standardize(own, own)[1], val_targets), np.zeros(1)
    if parts[0].dim() == _IMAGE_AXES and parts[0].shape[1] == _COLORS:
        flipped = feature_matrix([parts[0].flip(1), *parts[1:]])[train_count + val_kept]
        reordered = _agreement(learner, standardize(flipped, flipped)[1], val_targets)
    inside = val_targets.agreement(ReferenceLearner(val_x, val_targets).kernel_ridge.predictions)
    within_train = train_targets.agreement(learner.kernel_ridge.predictions)
    train_groups, val_groups = list[NDArray[np.int64]](), list[NDArray[np.int64]]()
    if inside.mean() - across.mean() > _MIN_GAIN:
        inside = _blocked_agreement(val_x, val_targets, of_val)
        within_train = _blocked_agreement(train_x, train_targets, of_train)
        train_groups, val_groups = _group(train_x, of_train), _group(val_x, of_val)
    return SplitTransfer(
        float(across.mean()),
        float(inside.mean()),
        float(within_train.mean()),
        _standard_error(inside - across, val_groups, val_targets),
        math.hypot(
            _standard_error(within_train, train_groups, train_targets),
            _standard_error(across, val_groups, val_targets),
        ),
        len(train_targets),
        len(val_targets),
        float(aligned.mean()),
        float(reordered.mean()),
    )


def _agreement(learner: ReferenceLearner, x: Matrix, targets: Targets) -> Floats:
    return targets.agreement(_match_columns(learner.predict(x), targets.columns.shape[1]))


def _blocked_agreement(x: Matrix, targets: Targets, indices: NDArray[np.int64]) -> Floats:
    """Return the score of each row by learners that were fitted without its block of the dataset."""
    predictions = np.zeros_like(targets.columns)
    for block in np.array_split(np.argsort(indices, kind="stable"), _BLOCKS):
        others = np.setdiff1d(np.arange(len(x)), block)
        predictions[block] = ReferenceLearner(x[others], targets.take(others)).predict(x[block])
    return targets.agreement(predictions)


def _standard_error(values: Floats, groupings: list[NDArray[np.int64]], targets: Targets) -> float:
    """Return the standard error of the mean of values; the largest of those with the rows of a group as dependent.

    What the rows of a class have in common is no dependence: another draw of groups has the same classes.
    """
    deviations = values - values.mean()
    if targets.kind == "classes":
        classes = np.unique(targets.classes, return_inverse=True)[1].reshape(-1)
        deviations = values - (np.bincount(classes, values) / np.bincount(classes))[classes]
    errors = [float(values.std(ddof=1) / len(values) ** 0.5)]
    for groups in groupings:
        sums, count = np.bincount(groups, deviations), len(np.unique(groups))
        if count > 1:
            errors.append(float(np.sqrt(np.square(sums).sum() * count / (count - 1)) / len(values)))
    return max(errors)


def _group(x: Matrix, indices: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the group of each row, which may be a person or a day: blocks of the dataset, and similar rows."""
    places = np.argsort(np.argsort(indices, kind="stable"))
    blocks = [places * count // len(x) for count in _GROUP_COUNTS if count < len(x)]
    return blocks + [_find_clusters(x, count) for count in _GROUP_COUNTS if count < len(x)]


def _find_clusters(x: Matrix, count: int) -> NDArray[np.int64]:
    """Return the cluster of each row (k-means)."""
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about equal rows
        clusters: NDArray[np.int64] = KMeans(count, n_init=1, max_iter=_CLUSTER_STEPS, random_state=0).fit_predict(x)
    return clusters


def _visits_a_part(loader: Any) -> bool:
    """Return whether the sampler of a loader leaves out half of the samples or more, as in a curriculum."""
    return is_map_style(loader) and len(get_visited_indices(loader)) < _MIN_VISITED * len(loader.dataset)


def _match_columns(predictions: np.ndarray, count: int) -> np.ndarray:
    """Return predictions with at least ``count`` columns: a split may lack the last classes."""
    missing = max(count - predictions.shape[1], 0)
    return np.pad(predictions, ((0, 0), (0, missing)), constant_values=-np.inf)
