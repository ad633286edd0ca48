"""How well labels can be predicted from the inputs by a kernel ridge regression, in each split and across them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.dense_labels import draw_positions, neighborhoods, position_classes
from nbdebug.measurements.partial_streams import begins_ordered_stream
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.losses import ignore_index

_MAX_ROWS, _MAX_COLUMNS, _MIN_ROWS = 300, 128, 100
_MAX_DENSE_ROWS, _POSITIONS, _MAX_POSITIONS = 600, 4, 16  # of a sample; more than four if there are few samples
_NUM_PERMUTATIONS, _RIDGE_STRENGTH, _MIN_SIGMA = 25, 0.1, 2.0
_MAX_DRAWS, _CLEAR_SIGMA = 4, 5.0  # of other rows, if those of one draw do not show a clear relation
_MAX_PERMUTED = 10_000  # samples: permuting a million labels takes longer than the rest of the probe


@dataclass(frozen=True)
class LabelPredictability:
    """Out-of-sample accuracy of predicted labels, next to the accuracy with permuted labels.

    All are means over ``draws`` of ``rows`` other rows each.
    """

    accuracy: float
    chance_accuracy: float
    chance_std: float
    rows: int
    metric: str = "accuracy"
    draws: int = 1

    @property
    def sigma(self) -> float:
        """The accuracy above chance, in standard deviations of the permuted accuracies."""
        return self.gain / max(self.chance_std, 1e-6)

    @property
    def gain(self) -> float:
        """The accuracy above chance."""
        return self.accuracy - self.chance_accuracy

    @property
    def is_detectable(self) -> bool:
        """True if chance does not explain the accuracy."""
        return self.sigma >= _MIN_SIGMA

    def is_faint_beside(self, other: LabelPredictability, share: float) -> bool:
        """Return whether the gain is certainly below a share of that of other labels of the same task."""
        return self.gain + _MIN_SIGMA * self.chance_std < share * other.gain

    def is_certainly_below(self, other: LabelPredictability, sigmas: float) -> bool:
        """Return whether the gain is below that of other labels by some standard errors of the two accuracies.

        The deviation of permuted accuracies is not that of this one: which rows are drawn matters more if the labels
        do depend on them.
        """
        return other.gain - self.gain > sigmas * math.hypot(self._error, other._error)

    @property
    def _error(self) -> float:
        """The standard error of the accuracy of so many rows."""
        return math.sqrt(max(self.accuracy * (1 - self.accuracy), 0.0) / (self.rows * self.draws) + self.chance_std**2)


@dataclass(frozen=True)
class LabelProbe:
    """The predictability of the labels within each split, and between the splits.

    Empty if a split has fewer than 100 samples, or not one class per sample. If the first rows of a split show no clear
    relation, up to three further draws of other rows decide. ``shifted`` is the result for training
    labels shifted by one sample; it is measured if the unshifted labels are not predictable. ``cross_split_confusion``
    is the confusion matrix of validation classes (rows) as predicted by a learner fitted on the training split
    (columns); None for signs. ``is_by_position`` tells whether there is a class at each position, which the
    neighborhood predicts; ``has_signs`` whether the two classes are -1 and 1, as for a hinge loss.
    """

    within: dict[str, LabelPredictability]
    shifted: dict[int, LabelPredictability]
    cross_split_confusion: Tensor | None = None
    is_by_position: bool = False
    has_signs: bool = False


@measurement
def label_probe(setup: Setup, tables: dict[str, SplitTable]) -> LabelProbe:
    """Accuracy of labels predicted from some hundred other samples by kernel ridge regression, in and across splits."""
    ignored = ignore_index(setup.loss_fn)
    parts = {split: _draw_probe_sample(table, ignored) for split, table in tables.items()}
    usable = {split: drawn_sample for split, drawn_sample in parts.items() if drawn_sample is not None}
    if "train" not in usable:
        return LabelProbe({}, {})
    classes = 1 + max(int(sample.labels.max()) for sample in usable.values())
    within = {split: _measure_split(tables[split], ignored, sample, classes) for split, sample in usable.items()}
    shifted: dict[int, LabelPredictability] = {}
    train = usable["train"]
    if not within["train"].is_detectable and tables["train"].is_complete:
        shifted = {shift: _measure_predictability(train, shift, classes) for shift in (-1, 1)}
    has_signs = any(_are_signs(tables[split].labels) for split in usable)
    comparable = "val" in usable and usable["val"].features.shape[1] == train.features.shape[1] and not has_signs
    comparable = comparable and not begins_ordered_stream(setup, tables)  # else classes of the rest are unknown
    confusion = _compute_confusion(train, usable["val"], classes) if comparable else None
    return LabelProbe(within, shifted, confusion, tables["train"].labels is None, has_signs)


def _are_signs(labels: Tensor | None) -> bool:
    """Return whether all labels are -1 or 1, and both occur; -1 as a marker of missing labels is beside others."""
    return labels is not None and bool((labels.abs() == 1).all()) and bool((labels < 0).any() and (labels > 0).any())


def _measure_split(table: SplitTable, ignored: int | None, first: _ProbeSample, classes: int) -> LabelPredictability:
    """Measure the predictability on the first rows, and on further draws as long as they show no clear relation."""
    measured = [_measure_predictability(first, 0, classes)]
    for draw in range(1, _MAX_DRAWS):
        sample = None if _average(measured).sigma >= _CLEAR_SIGMA else _draw_probe_sample(table, ignored, draw)
        if sample is None or len(sample.features) < len(first.features):
            break
        measured.append(_measure_predictability(sample, 0, classes))
    return _average(measured)


def _average(measured: list[LabelPredictability]) -> LabelPredictability:
    """Return the mean of measurements on rows that differ."""
    return LabelPredictability(
        statistics.mean(part.accuracy for part in measured),
        statistics.mean(part.chance_accuracy for part in measured),
        math.hypot(*(part.chance_std for part in measured)) / len(measured),
        measured[0].rows,
        draws=len(measured),
    )


@dataclass(frozen=True)
class _ProbeSample:
    """Some rows of a table as standardized features, with the labels of all samples at each of their positions.

    ``positions`` are those of these rows; a target of one class has a single position.
    """

    indices: Tensor
    features: Tensor
    all_labels: Tensor
    positions: Tensor

    @property
    def labels(self) -> Tensor:
        """The labels of these rows."""
        return self.all_labels[self.indices, self.positions]

    def labels_of(self, samples: Tensor) -> Tensor:
        """Return the labels of these rows if each had those of a given sample; negative if that has none there."""
        return self.all_labels[samples, self.positions]

    @cached_property
    def left_out_matrix(self) -> Tensor:
        """The matrix from one-hot labels to the scores of each row by a kernel ridge regression without its sample.

        For a linear smoother these follow from a single fit: y - B⁻¹ A y, where A is the inverse of the regularized
        kernel, and B is A without the entries between different samples.
        """
        inverse = torch.linalg.inv(_regularized_kernel(self.features)[0])
        same_sample = self.indices[:, None] == self.indices
        matrix: Tensor = torch.eye(len(inverse)) - torch.linalg.solve(inverse * same_sample, inverse)
        return matrix


def _draw_probe_sample(table: SplitTable, ignored: int | None, draw: int = 0) -> _ProbeSample | None:
    """Draw some rows of a split, others in each draw, if there are enough.

    None if there are only those of one class, non-finite values, or no plain inputs. If there is a class at each
    position, a row is the neighborhood of a position. The rows of a sample are neighbors.
    """
    labels = table.labels
    labels = (labels + 1) // 2 if labels is not None and _are_signs(labels) else labels
    classes = labels[:, None] if labels is not None else position_classes(table.targets, ignored)
    if classes is None or not table.inputs or not len(table) or (labels is not None and int(labels.min()) < 0):
        return None
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))
    affordable = min(_MAX_DENSE_ROWS // len(table), _MAX_POSITIONS) if len(table) * _POSITIONS >= _MIN_ROWS else 0
    drawn = draw_positions(classes, max(_POSITIONS, affordable))
    indices, positions = order.repeat_interleave(drawn.shape[1]), drawn[order].flatten()
    flat_classes = classes.flatten(1)
    has_class = flat_classes[indices, positions] >= 0
    row_count = _MAX_ROWS if labels is not None else _MAX_DENSE_ROWS
    drawn_rows = slice(draw * row_count, (draw + 1) * row_count)
    indices, positions = indices[has_class][drawn_rows], positions[has_class][drawn_rows]
    if len(indices) < _MIN_ROWS or len(set(flat_classes[indices, positions].tolist())) < 2:
        return None
    features = _draw_features(table, classes.shape[1:], indices, positions)
    if features is None or not bool(features.isfinite().all()):
        return None
    features = (features - features.mean(0)) / features.std(0).clamp_min(1e-6)
    return _ProbeSample(indices, features, flat_classes, positions)


def _draw_features(table: SplitTable, shape: torch.Size, indices: Tensor, positions: Tensor) -> Tensor | None:
    """Return the features of some rows: the whole inputs, or the neighborhood of a position."""
    inputs = tuple(part[indices] for part in table.inputs)
    if table.labels is not None:
        return torch.cat([to_features(part) for part in inputs], 1)
    return neighborhoods(inputs, shape, positions)


def to_features(part: Tensor) -> Tensor:
    """Return rows of numbers: the values themselves, or the counts of each token."""
    flat = part.reshape(len(part), -1)
    if not flat.is_floating_point() and flat.dtype != torch.uint8 and 0 <= int(flat.min()) <= int(flat.max()) < 4096:
        tokens, width = flat.long(), int(flat.max()) + 1
        flat = torch.zeros(len(flat), width).scatter_add_(1, tokens, torch.ones(tokens.shape))
    flat = flat.float()
    if flat.shape[1] <= _MAX_COLUMNS:
        return flat
    generator = torch.Generator().manual_seed(0)
    projected: Tensor = flat @ torch.randn(flat.shape[1], _MAX_COLUMNS, generator=generator) / _MAX_COLUMNS**0.5
    return projected


def _regularized_kernel(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Gaussian kernel matrix of some rows plus the ridge, and the kernel's width."""
    squared_distances = torch.cdist(x, x).square()
    width = squared_distances.median().clamp_min(1e-6)
    return torch.exp(-squared_distances / width) + _RIDGE_STRENGTH * torch.eye(len(x)), width


def _fit_kernel_ridge(x: Tensor, queries: Tensor) -> Tensor:
    """Return the kernel ridge regression matrix from one-hot labels of ``x`` to scores of ``queries``."""
    kernel, width = _regularized_kernel(x)
    matrix: Tensor = torch.linalg.solve(kernel, torch.exp(-torch.cdist(x, queries).square() / width)).t()
    return matrix


def _measure_predictability(sample: _ProbeSample, shift: int, classes: int) -> LabelPredictability:
    """Measure the accuracy of predicting each sample from the others, next to those of random other samples.

    ``classes`` is the number of classes in the rows of the samples; classes of other samples count as none.
    """
    generator, count = torch.Generator().manual_seed(0), len(sample.all_labels)
    is_large = count > _MAX_PERMUTED
    others = torch.randint(count, (_MAX_PERMUTED,), generator=generator) if is_large else torch.arange(count)
    orders = [torch.randperm(len(others), generator=generator) for _ in range(_NUM_PERMUTATIONS)]
    permuted = [others[order][sample.indices % len(others)] for order in orders]
    shifted = (sample.indices - shift) % count
    labels = torch.stack([sample.labels_of(samples) for samples in (shifted, *permuted)], 1)
    has_class = (labels >= 0) & (labels < classes)  # a rare class may occur in none of these rows
    one_hot = F.one_hot(labels.where(has_class, 0), classes).float() * has_class[..., None]
    centered = (one_hot - one_hot.sum(0) / has_class.sum(0)[:, None].clamp(min=1)) * has_class[..., None]
    scores = (sample.left_out_matrix @ centered.flatten(1)).reshape(centered.shape)
    is_right = (scores.argmax(2) == labels) & has_class
    accuracy, *permuted_accuracies = (is_right.sum(0) / has_class.sum(0).clamp(min=1)).tolist()
    return LabelPredictability(
        accuracy, statistics.mean(permuted_accuracies), statistics.stdev(permuted_accuracies), len(labels)
    )


def _compute_confusion(train: _ProbeSample, val: _ProbeSample, classes: int) -> Tensor:
    predicted = (_fit_kernel_ridge(train.features, val.features) @ _get_centered_one_hot(train.labels, classes)).argmax(
        1
    )
    return torch.bincount(val.labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def _get_centered_one_hot(labels: Tensor, classes: int) -> Tensor:
    """Return one-hot labels minus the class frequencies."""
    one_hot = F.one_hot(labels, classes).float()
    return one_hot - one_hot.mean(0)
