"""A strong learner of a few thousand rows that takes less than a second: kernel ridge regression, and trees.

It is fitted on features and targets alone, so it tells how well the targets can be predicted from the inputs by a
learner that shares no code with the user's network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.input_features import Matrix

Floats = NDArray[np.float64]
TargetKind = Literal["classes", "labels", "values"]
_MAX_LANDMARKS = 300
_RELATIVE_WIDTHS = (1.0, 0.3, 3.0)  # of the median distance
_MAX_COLUMNS = 512  # of shuffled targets that are fitted together
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_MIN_EIGENVALUE = 1e-6
_TREES, _MIN_TREES = 40, 4
# About 0.1 µs for each comparison and 1 ms for each tree, on 200 to 2,000 rows of 8 to 1,000 features: 0.4 s in all.
_MAX_COMPARISONS, _COMPARISONS_PER_TREE = 4e6, 1e4
KERNEL_RIDGE, TREES = "a kernel ridge regression", "a random forest"


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets as columns: the classes one-hot, each label as 0 or 1, or the values.

    ``kind`` says how predictions are scored: by the accuracy of the largest column, by the accuracy of each column at
    one half, or by the explained variance.
    """

    kind: TargetKind
    columns: Floats

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def metric(self) -> str:
        """The name of the score."""
        return "explained variance" if self.kind == "values" else "accuracy"

    @property
    def classes(self) -> NDArray[np.int64]:
        """The class of each row."""
        classes: NDArray[np.int64] = self.columns.argmax(1)
        return classes

    def take(self, rows: Any) -> Targets:
        """Return some rows."""
        return replace(self, columns=self.columns[rows])

    def limit_outliers(self) -> Targets:
        """Return the values clipped to a range three times as wide as that of their middle 96%.

        Returns these same targets if nothing is clipped, or if they are no values.
        """
        if self.kind != "values":
            return self
        low, high = np.quantile(self.columns, [0.02, 0.98], axis=0)
        width = high - low
        limited = np.clip(self.columns, low - width, high + width)
        return self if np.array_equal(limited, self.columns) else replace(self, columns=limited)

    def agreement(self, predictions: Any) -> Floats:
        """Return the score of each row: the share of right answers, or one minus the relative squared error.

        ``predictions`` has the columns as its last axis and the rows before it.
        """
        if self.kind == "values":
            variance = self.columns.var(0).sum()
            scores: Floats = 1 - ((predictions - self.columns) ** 2).sum(-1) / max(variance, 1e-12)
            return scores
        means: Floats = self._right_answers(predictions).mean(-1)
        return means

    def balanced_agreement(self, predictions: Any) -> Floats:
        """Return the score of each row with the same total weight for each class, and for both values of a label."""
        if self.kind == "values":
            return self.agreement(predictions)
        if self.kind == "classes":
            counts, occurring = self.columns.sum(0)[self.classes][:, None], int((self.columns.sum(0) > 0).sum())
        else:
            positive = self.columns.sum(0)
            counts, occurring = np.where(self.columns > 0.5, positive, len(self) - positive), 2
        means: Floats = (self._right_answers(predictions) * len(self) / (occurring * counts)).mean(-1)
        return means

    def _right_answers(self, predictions: Any) -> Floats:
        """Return 1 for each right answer: one for each row, or one for each of its labels."""
        if self.kind == "classes":  # of which a small split may lack the last ones
            is_right = (predictions.argmax(-1) == self.classes)[..., None]
        else:
            is_right = (predictions > 0.5) == (self.columns > 0.5)
        answers: Floats = is_right.astype(np.float64)
        return answers

    @property
    def constant_score(self) -> float:
        """The score of the best constant prediction."""
        if self.kind == "values":
            return 0.0
        shares = self.columns.mean(0)
        return float(shares.max() if self.kind == "classes" else np.maximum(shares, 1 - shares).mean())


@dataclass(frozen=True, eq=False)
class ReferencePrediction:
    """Predictions of rows by a learner that was fitted without the row, and their mean score."""

    learner: str
    predictions: Floats
    score: float

    def class_probabilities(self) -> Floats:
        """Return the predictions as class probabilities."""
        clipped = np.clip(self.predictions, 1e-6, 1.0)
        probabilities: Floats = clipped / clipped.sum(1, keepdims=True)
        return probabilities


class ReferenceLearner:
    """Kernel ridge regression and trees on standardized features ``x``, one row per target.

    Width and penalty are those of the best score on rows left out one at a time, which is exact and free for ridge
    regression. The kernel is approximated from up to 300 rows (Williams and Seeger 2001, Using the Nyström Method to
    Speed Up Kernel Machines). Nothing is drawn from the global generators.
    """

    def __init__(self, x: Matrix, targets: Targets) -> None:
        self.x, self.targets = x, targets
        self.mean = targets.columns.mean(0)

    def with_targets(self, targets: Targets) -> ReferenceLearner:
        """Return a learner of other targets of the same rows, with the same bases."""
        learner = ReferenceLearner(self.x, targets)
        learner.fits = self.fits
        return learner

    @cached_property
    def fits(self) -> list[_RidgeBasis]:
        """The basis of each kernel width."""
        return list(_ridge_bases(self.x))

    def out_of_fold(self) -> ReferencePrediction:
        """Return the predictions of the better learner; trees are grown if the kernel ridge leaves room for them.

        Their number depends on the rows and features, not on time, so that the result is the same on each machine.
        """
        best = self.kernel_ridge
        if 1.0 - best.score < 0.02 or self.trees is None:
            return best
        return self.trees if self.trees.score > best.score else best

    @cached_property
    def kernel_ridge(self) -> ReferencePrediction:
        """The predictions of kernel ridge regression for rows left out one at a time."""
        basis, penalty = self._selected
        predictions = self.mean + basis.left_out(self.targets.columns - self.mean, penalty)
        return ReferencePrediction(KERNEL_RIDGE, predictions, float(self.targets.agreement(predictions).mean()))

    @cached_property
    def trees(self) -> ReferencePrediction | None:
        """The out-of-bag predictions of up to forty random trees; None if there is room for fewer than four."""
        count = self._tree_count()
        return self._trees(count) if count >= _MIN_TREES else None

    @cached_property
    def _selected(self) -> tuple[_RidgeBasis, float]:
        centered = self.targets.columns - self.mean
        candidates: list[tuple[float, _RidgeBasis, float]] = []
        for basis in self.fits:
            rotated = basis.rotate(centered)
            for penalty in _PENALTIES:
                predictions = self.mean + basis.left_out_from(rotated, centered, penalty)
                candidates.append((float(self.targets.agreement(predictions).mean()), basis, penalty))
        _, basis, penalty = max(candidates, key=lambda candidate: candidate[0])
        return basis, penalty

    def predict(self, queries: Matrix) -> Floats:
        """Return the predictions of the kernel ridge regression for other rows."""
        basis, penalty = self._selected
        prediction: Floats = self.mean + basis.predict(queries, self.targets.columns - self.mean, penalty)
        return prediction

    def shuffled_scores(self, count: int) -> Floats:
        """Return the scores after shuffling the targets, each with its own best width and penalty."""
        generator, rows = np.random.default_rng(0), len(self.targets)
        parts = [self.targets.take(generator.permutation(rows)) for _ in range(count)]
        size = max(_MAX_COLUMNS // self.targets.columns.shape[1], 1)
        return np.concatenate([self._scores_of(parts[start : start + size]) for start in range(0, count, size)])

    def _scores_of(self, parts: Sequence[Targets]) -> Floats:
        """Return the scores for other targets, each with its own best width and penalty."""
        centered = np.concatenate([part.columns - self.mean for part in parts], 1)
        best = np.full(len(parts), -np.inf)
        for basis in self.fits:
            rotated = basis.rotate(centered)
            for penalty in _PENALTIES:
                left_out = np.split(basis.left_out_from(rotated, centered, penalty), len(parts), 1)
                scores = [
                    part.agreement(self.mean + predictions).mean()
                    for part, predictions in zip(parts, left_out, strict=True)
                ]
                best = np.maximum(best, scores)
        return best

    def _features_per_split(self) -> int:
        features = self.x.shape[1]
        return max(int(features**0.5), 1) if self.targets.kind == "classes" else max(features // 3, 1)

    def _tree_count(self) -> int:
        rows = len(self.targets)
        comparisons = rows * np.log2(max(rows, 2)) * self._features_per_split()
        return min(_TREES, int(_MAX_COMPARISONS / (comparisons + _COMPARISONS_PER_TREE)))

    def _trees(self, count: int) -> ReferencePrediction:
        """Return the out-of-bag predictions of some random trees."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        is_class = self.targets.kind == "classes"
        columns = self.targets.columns
        y = self.targets.classes if is_class else columns[:, 0] if columns.shape[1] == 1 else columns
        width = self._features_per_split()
        model_type = DecisionTreeClassifier if is_class else DecisionTreeRegressor
        sums, counts, generator = np.zeros(columns.shape), np.zeros(len(columns)), np.random.default_rng(0)
        for number in range(count):
            drawn = generator.integers(0, len(y), len(y))
            left_out = np.setdiff1d(np.arange(len(y)), drawn)
            tree = model_type(min_samples_leaf=1 if is_class else 3, max_features=width, random_state=number)
            tree.fit(self.x[drawn], y[drawn])
            if is_class:
                sums[np.ix_(left_out, tree.classes_)] += tree.predict_proba(self.x[left_out])
            else:
                sums[left_out] += tree.predict(self.x[left_out]).reshape(len(left_out), -1)
            counts[left_out] += 1
        predictions = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], self.mean)
        return ReferencePrediction(TREES, predictions, float(self.targets.agreement(predictions).mean()))


class _RidgeBasis:
    """Kernel features of rows, rotated so that ridge regression is diagonal.

    They are of double precision: a row far from all others has a leverage near one, and the rounding of its own target
    would be larger than what the other rows say about it.
    """

    def __init__(self, x: Matrix, landmarks: Matrix, squared_width: float, distances: Matrix) -> None:
        self.landmarks, self.squared_width = landmarks, squared_width
        between = _kernel(_squared_distances(landmarks, landmarks), squared_width).astype(np.float64)
        values, vectors = np.linalg.eigh(between)
        is_large = values > _MIN_EIGENVALUE * values[-1]
        scale = np.sqrt(values[is_large])
        whitening: Floats = vectors[:, is_large] / scale
        if len(x) == len(landmarks):  # all rows: their features are orthogonal already
            self.eigenvalues: Floats = values[is_large]
            self.transform: Floats = whitening
            self.features: Floats = vectors[:, is_large] * scale
        else:
            features: Floats = _kernel(distances, squared_width).astype(np.float64) @ whitening
            eigenvalues, rotation = np.linalg.eigh(features.T @ features)
            self.eigenvalues = np.maximum(eigenvalues, 0)
            self.transform = whitening @ rotation
            self.features = features @ rotation
        self.squared_features: Floats = self.features**2
        self._leverages: dict[float, tuple[Floats, Floats]] = {}

    def rotate(self, y: Floats) -> Floats:
        """Return the inner products of the features and the targets."""
        products: Floats = self.features.T @ y
        return products

    def left_out(self, y: Floats, penalty: float) -> Floats:
        """Return the prediction of each row by a fit on all other rows."""
        return self.left_out_from(self.rotate(y), y, penalty)

    def left_out_from(self, rotated: Floats, y: Floats, penalty: float) -> Floats:
        """Return the same as `left_out` for targets that were rotated already."""
        if penalty not in self._leverages:
            shrinkage = 1 / (self.eigenvalues + penalty)
            self._leverages[penalty] = shrinkage, (self.squared_features @ shrinkage)[:, None]
        shrinkage, leverage = self._leverages[penalty]
        fitted = self.features @ (rotated * shrinkage[:, None])
        prediction: Floats = (fitted - leverage * y) / (1 - leverage)
        return prediction

    def predict(self, queries: Matrix, y: Floats, penalty: float) -> Floats:
        """Return the predictions of other rows by a fit on all rows."""
        features = _kernel(_squared_distances(queries, self.landmarks), self.squared_width) @ self.transform
        prediction: Floats = features @ (self.rotate(y) / (self.eigenvalues + penalty)[:, None])
        return prediction


def _ridge_bases(x: Matrix) -> Iterator[_RidgeBasis]:
    """Yield the basis of each kernel width."""
    chosen = np.random.default_rng(0).permutation(len(x))[:_MAX_LANDMARKS]
    landmarks = x[np.sort(chosen)]
    distances = _squared_distances(x, landmarks)
    median = max(float(np.median(distances)), 1e-6)
    for relative_width in _RELATIVE_WIDTHS:
        yield _RidgeBasis(x, landmarks, median * relative_width**2, distances)


def _squared_distances(x: Matrix, y: Matrix) -> Matrix:
    products = x @ y.T
    squared = (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * products
    distances: Matrix = np.maximum(squared, 0)
    return distances


def _kernel(squared_distances: Matrix, squared_width: float) -> Matrix:
    kernel: Matrix = np.exp(-squared_distances / squared_width)
    return kernel
