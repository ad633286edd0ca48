"""Class scores of rows by several learners that did not see the row's label."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.baselines.input_features import Matrix, feature_matrix, standardize_columns
from nbdebug.baselines.reference_learner import Floats, ReferenceLearner, Targets

_Ints = NDArray[np.int64]
_TREES, _MIN_VOTE = 150, 5e-3
_NEIGHBORS, _MIN_NEIGHBOR_VOTE = 12, 1e-2
_LINEAR_PENALTIES, _MAX_COMPONENTS = (1.0, 10.0, 100.0, 1000.0), 200
_MIN_PROBABILITY = 1e-3
_MIN_SQUARE = 1e-12  # of a component, relative to the largest
_STEPS, _BANDS = 16, 24


def feature_views(parts: Sequence[Tensor]) -> list[Matrix]:
    """Return standardized features of some inputs: their values, and the spectra of series, which have no phase."""
    views = [standardize_columns(feature_matrix(parts))]
    series = [part for part in parts if part.dim() == 3 and part.is_floating_point() and max(part.shape[1:]) >= _STEPS]
    if series:
        views.append(standardize_columns(torch.cat([_spectral_features(part) for part in series], 1).numpy()))
    return views


def _spectral_features(series: Tensor) -> Tensor:
    """Return moments, range and the log power in 24 bands of frequency of each channel; time is the longer axis."""
    series = torch.nan_to_num(series.float())
    steps = series if series.shape[1] >= series.shape[2] else series.transpose(1, 2)
    power = torch.fft.rfft(steps - steps.mean(1, keepdim=True), dim=1).abs().square()[:, 1:]
    bands = [band.mean(1) for band in torch.tensor_split(power, min(_BANDS, power.shape[1]), dim=1)]
    moments = [steps.mean(1), steps.std(1), steps.diff(dim=1).std(1), steps.amin(1), steps.amax(1)]
    return torch.cat([*moments, *map(torch.log1p, bands)], 1)


class OutOfFoldScorer:
    """Scores the classes of rows, from one or more views of them, by learners that leave out the row itself."""

    def __init__(self, views: Sequence[Matrix]) -> None:
        self.views = [_ViewScorer(x) for x in views]

    def scores(self, labels: _Ints, classes: int, with_trees: bool = True) -> Floats:
        """Return scores of the shape (learners, rows, classes), which are not calibrated."""
        return np.concatenate([view.scores(labels, classes, with_trees) for view in self.views])


class _ViewScorer:
    """Scores the classes of standardized features ``x``.

    A Gaussian kernel ridge and a linear ridge leave out one row at a time, exactly; nearest neighbors exclude the row,
    and randomized trees (Geurts, Ernst and Wehenkel 2006, doi:10.1007/s10994-006-6226-1) vote out of bag.
    """

    def __init__(self, x: Matrix) -> None:
        self.x = x

    def scores(self, labels: _Ints, classes: int, with_trees: bool) -> Floats:
        """Return scores of the shape (learners, rows, classes)."""
        targets = np.eye(classes)[labels]
        kernel = self._score_by_kernel(targets)
        parts = [kernel, _log_probabilities(kernel), self._score_by_line(targets), self._score_by_neighbors(targets)]
        if with_trees:
            parts.append(self._score_by_trees(labels, classes))
        return np.stack(parts)

    @cached_property
    def _learner(self) -> ReferenceLearner:
        return ReferenceLearner(self.x, Targets("classes", np.zeros((len(self.x), 1))))

    def _score_by_kernel(self, targets: Floats) -> Floats:
        learner = self._learner.with_targets(Targets("classes", targets))
        return learner.kernel_ridge.predictions

    @cached_property
    def _components(self) -> tuple[Floats, Floats]:
        """The principal components of the rows, and their squared lengths."""
        centered = (self.x - self.x.mean(0)).astype(np.float64)
        is_wide = centered.shape[1] > len(centered)
        # The eigenvectors of the smaller product always converge, unlike the singular vectors of some matrices.
        squares, vectors = np.linalg.eigh(centered @ centered.T if is_wide else centered.T @ centered)
        order = np.argsort(-squares)[:_MAX_COMPONENTS]
        order = order[squares[order] > _MIN_SQUARE * max(float(squares.max()), _MIN_SQUARE)]
        squares, vectors = squares[order], vectors[:, order]
        return (vectors if is_wide else centered @ vectors / np.sqrt(squares)), squares

    def _score_by_line(self, targets: Floats) -> Floats:
        """Return the predictions of the best linear ridge regression for rows left out one at a time."""
        vectors, squares = self._components
        mean = targets.mean(0)
        centered = targets - mean
        rotated = vectors.T @ centered
        best, lowest = targets, np.inf
        for penalty in _LINEAR_PENALTIES:
            shrinkage = squares / (squares + penalty)
            leverage = ((vectors**2) @ shrinkage + 1 / len(targets))[:, None]
            left_out = (vectors @ (shrinkage[:, None] * rotated) - leverage * centered) / (1 - leverage)
            error = float(((left_out - centered) ** 2).mean())
            if error < lowest:
                best, lowest = mean + left_out, error
        return best

    @cached_property
    def _neighbors(self) -> tuple[Floats, _Ints]:
        """The weights and rows of the nearest neighbors of each row."""
        from sklearn.neighbors import NearestNeighbors

        count = min(_NEIGHBORS, len(self.x) - 1)
        distances, rows = NearestNeighbors(n_neighbors=count).fit(self.x).kneighbors()
        weights = 1 / np.maximum(distances, 1e-6)
        return weights / weights.sum(1, keepdims=True), rows

    def _score_by_neighbors(self, targets: Floats) -> Floats:
        weights, rows = self._neighbors
        votes = np.einsum("ij,ijk->ik", weights, targets[rows])
        logarithms: Floats = np.log(np.maximum(votes, _MIN_NEIGHBOR_VOTE))
        return logarithms

    def _score_by_trees(self, labels: _Ints, classes: int) -> Floats:
        import warnings

        from sklearn.ensemble import ExtraTreesClassifier

        forest = ExtraTreesClassifier(_TREES, bootstrap=True, oob_score=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a row in each bag, which has no vote
            forest.fit(self.x, labels)
        votes = np.zeros((len(labels), classes))
        votes[:, forest.classes_] = np.nan_to_num(forest.oob_decision_function_)
        logarithms: Floats = np.log(np.maximum(votes, _MIN_VOTE))
        return logarithms


def _log_probabilities(scores: Floats) -> Floats:
    """Return the logarithms of scores that estimate probabilities."""
    logarithms: Floats = np.log(np.clip(scores, _MIN_PROBABILITY, 1.0))
    return logarithms
