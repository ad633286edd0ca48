"""Features of a table that alone reveal the target, by cross-fitted small trees, and features that number the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.tools.data.class_rank_relations import UNRELATED_LEVEL, ClassRankRelations

_Floats = NDArray[np.float64]
_MAX_ROWS, _MIN_ROWS, _FOLDS, _MAX_COLUMNS, _FITTED = 2000, 60, 5, 2048, 12
_DEPTH, _MIN_LEAF = 4, 5
_LARGE = 1e9  # in place of missing and infinite values, for trees of single precision
_MIN_SKILL, _ERROR_RATIO, _MIN_SIGMAS = 0.7, 0.4, 3.0
_BINS = 16
_MIN_COMMON_SHARE, _MIN_CLUSTER_SKILL = 0.2, 0.2
_PLANTED_NOISES, _PLANTINGS, _MIN_NOTICED = (0.2, 0.1, 0.05, 0.02), 10, 9


@dataclass(frozen=True)
class FeatureLeak:
    """A feature that alone predicts the target far better than any other feature, or is a noisy copy of the target.

    ``skill`` is the share of the errors (of the variance) of a constant that a small tree on this feature alone avoids,
    and ``next_skill`` that of the best other feature ``next_name``. ``smallest_p`` is that of the relations of a noisy
    copy with the other features within the classes; NaN for a feature that is far better.
    """

    name: str
    skill: float
    next_name: str
    next_skill: float
    rows: int
    smallest_p: float = float("nan")

    @property
    def text(self) -> str:
        """The leak in words."""
        if np.isfinite(self.smallest_p):
            return (
                f"{self.name} looks like a noisy copy of the target: a small tree avoids {self.skill:.0%} of the "
                "errors of a constant, and within the classes the feature is unrelated to all others (smallest p "
                f"{self.smallest_p:.2g}, {self.rows:,} samples), which are related to each other"
            )
        return (
            f"{self.name} alone predicts the target: a small tree avoids {self.skill:.0%} of the errors of a constant, "
            f"with the next feature, {self.next_name}, {max(self.next_skill, 0):.0%} ({self.rows:,} samples)"
        )


@dataclass(frozen=True)
class _FeatureLeakSearch:
    """The leaking features among ``columns`` that were compared with the target.

    ``detectable_noise`` is the largest noise with which a planted copy of the target was found in nine of ten trials:
    the share of rows with another class, or the standard deviation relative to that of the target. It is 0 if none was.
    """

    leaks: tuple[FeatureLeak, ...] = ()
    columns: int = 0
    detectable_noise: float = 0.0


def find_feature_leaks(table: SplitTable, names: Sequence[str] | None) -> _FeatureLeakSearch:
    """Compare each feature with the target.

    A feature leaks if trees of depth 4 on it alone, scored on rows that they did not see, avoid 70% of the errors of a
    constant, and leave at most 0.4 of the errors of the next feature, beyond three standard errors; a coordinate of
    clusters does not leak. A feature that avoids 70% of the errors also leaks if it is a noisy copy of the class:
    unrelated within the classes to the other features, most of which are related to each other. Only tables with at
    least two features, sixty rows and one target are compared.
    """
    columns, target = table_columns(table), table.target_values()
    if columns is None or target is None or columns.shape[1] < 2 or len(columns) < _MIN_ROWS or not np.ptp(target):
        return _FeatureLeakSearch()
    order = np.random.default_rng(0).permutation(len(columns))[:_MAX_ROWS]
    x = np.nan_to_num(columns[order], nan=-_LARGE, posinf=_LARGE, neginf=-_LARGE).clip(-_LARGE, _LARGE)
    y, is_class, count = target[order], table.labels is not None, columns.shape[1]
    errors = _measure_errors(x, y, is_class)
    best, following, *_ = errors
    strong = [column for column, values in errors.items() if _skill(values) >= _MIN_SKILL]
    relations = _relate_within_classes(x, y, strong) if is_class else None

    def describe(column: int, next_column: int, smallest_p: float = float("nan")) -> FeatureLeak:
        first, second = (_column_name(names, number, count) for number in (column, next_column))
        return FeatureLeak(first, _skill(errors[column]), second, _skill(errors[next_column]), len(x), smallest_p)

    if _is_far_better(errors[best], errors[following]) and not (is_class and _is_cluster_coordinate(x, y, best)):
        return _FeatureLeakSearch((describe(best, following),), count)
    p = {column: relations.smallest_p(x[:, column]) for column in strong} if relations is not None else {}
    copies = [column for column in strong if p.get(column, 0.0) >= UNRELATED_LEVEL]
    if not copies:
        return _FeatureLeakSearch((), count, _find_detectable_noise(y, is_class, errors[best], relations))
    others = [column for column in errors if column not in copies] or [following]
    return _FeatureLeakSearch(tuple(describe(column, others[0], p[column]) for column in copies), count)


def _measure_errors(x: _Floats, y: _Floats, is_class: bool) -> dict[int, _Floats]:
    """Return the errors of trees on each of the features that a quick screen ranks first, the best feature first."""
    candidates = np.argsort(-_screen(x, y, is_class), kind="stable")[:_FITTED].tolist()
    errors = {column: _cross_fitted_errors(x[:, [column]], y, is_class) for column in candidates}
    return dict(sorted(errors.items(), key=lambda item: item[1].mean()))


def _relate_within_classes(x: _Floats, y: _Floats, strong: Sequence[int]) -> ClassRankRelations | None:
    """Return the relations to all features that do not predict the class well; None if they tell nothing."""
    relations = ClassRankRelations(x, y, [column for column in range(x.shape[1]) if column not in strong])
    return relations if relations.is_telling else None


def _is_far_better(errors: _Floats, next_errors: _Floats) -> bool:
    """Return whether the errors are few, and far fewer than those of the next feature beyond chance, row by row."""
    difference = next_errors - errors
    sigmas = difference.mean() / max(difference.std(ddof=1) / np.sqrt(len(difference)), 1e-12)
    is_small = errors.mean() <= _ERROR_RATIO * min(next_errors.mean(), 1.0)
    return bool(_skill(errors) >= _MIN_SKILL and is_small and sigmas > _MIN_SIGMAS)


def _is_cluster_coordinate(x: _Floats, y: _Floats, column: int) -> bool:
    """Return whether a column is one coordinate of clusters, of which each class has its own.

    Coordinates are measurements, so that no value is common in a class; they are unrelated within the classes; and the
    others tell the classes apart too, if less well. Clusters that happen to lie apart in one coordinate are no leak.
    """
    if any(_share_of_mode(x[y == label, column]) >= _MIN_COMMON_SHARE for label in np.unique(y)):
        return False
    others = [other for other in range(x.shape[1]) if other != column]
    if ClassRankRelations(x, y, others).is_telling:
        return False
    return _skill(_cross_fitted_errors(x[:, others], y, True)) >= _MIN_CLUSTER_SKILL


def _share_of_mode(values: _Floats) -> float:
    return float(np.unique(values, return_counts=True)[1].max() / len(values))


def _skill(errors: _Floats) -> float:
    """Return the share of the errors of a constant that is avoided."""
    return float(1 - errors.mean())


def _find_detectable_noise(
    y: _Floats, is_class: bool, best_errors: _Floats, relations: ClassRankRelations | None
) -> float:
    """Return the largest noise with which copies of the target are found next to the best feature; 0 if none is."""
    generator = np.random.default_rng(0)
    for noise in _PLANTED_NOISES:
        missed = 0
        for _ in range(_PLANTINGS):
            copy = _copy_with_noise(y, is_class, noise, generator)
            errors = _cross_fitted_errors(copy[:, None], y, is_class)
            is_unrelated = relations is not None and relations.smallest_p(copy) >= UNRELATED_LEVEL
            is_noisy = is_unrelated and _skill(errors) >= _MIN_SKILL
            missed += not (is_noisy or _is_far_better(errors, best_errors))
            if missed > _PLANTINGS - _MIN_NOTICED:
                break
        else:
            return noise
    return 0.0


def _copy_with_noise(y: _Floats, is_class: bool, noise: float, generator: np.random.Generator) -> _Floats:
    """Return the classes, a share of them replaced by other classes, or the values with normal noise."""
    if not is_class:
        noisy: _Floats = y + noise * y.std() * generator.standard_normal(len(y))
        return noisy
    classes, codes = np.unique(y, return_inverse=True)
    others = (codes + generator.integers(1, len(classes), len(y))) % len(classes)
    copied: _Floats = np.where(generator.random(len(y)) < noise, others, codes).astype(np.float64)
    return copied


def table_columns(table: SplitTable) -> _Floats | None:
    """Return the columns of all inputs that are rows of numbers; None without such inputs."""
    parts = [part for part in table.inputs if part.dim() <= 2 and not part.is_complex() and part.numel()]
    if not parts or sum(part[0].numel() for part in parts) > _MAX_COLUMNS:
        return None
    columns: _Floats = torch.cat([part.reshape(len(part), -1).double() for part in parts], 1).numpy()
    return columns


def _screen(x: _Floats, y: _Floats, is_class: bool) -> _Floats:
    """Return for each column the share of the variance of the target that the means of sixteen bins explain."""
    targets = (y[:, None] == np.unique(y)).astype(np.float64) if is_class else y[:, None]
    centered = targets - targets.mean(0)
    total = float((centered**2).sum())
    bins = np.argsort(np.argsort(x, axis=0, kind="stable"), axis=0) * _BINS // len(x)
    explained = np.zeros(x.shape[1])
    for number in range(_BINS):
        is_inside = (bins == number).astype(np.float64)
        sums = is_inside.T @ centered
        explained += (sums**2).sum(1) / np.maximum(is_inside.sum(0), 1)
    return explained / max(total, 1e-12)


def _cross_fitted_errors(x: _Floats, y: _Floats, is_class: bool) -> _Floats:
    """Return the relative errors of trees on the fold that they did not see."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    folds = np.arange(len(y)) % _FOLDS
    predicted = np.zeros(len(y))
    leaves = max(2**_DEPTH, 2 * len(np.unique(y))) if is_class else 2**_DEPTH
    model_type = DecisionTreeClassifier if is_class else DecisionTreeRegressor
    for fold in range(_FOLDS):
        model = model_type(max_leaf_nodes=leaves, min_samples_leaf=_MIN_LEAF, random_state=0)
        predicted[folds == fold] = model.fit(x[folds != fold], y[folds != fold]).predict(x[folds == fold])
    return relative_errors(predicted, y, is_class)


def relative_errors(predicted: _Floats, y: _Floats, is_class: bool) -> _Floats:
    """Return the error of each prediction, relative to the mean error of a constant prediction.

    An error is 1 for another class, or the squared difference of values. The targets ``y`` must not all be equal.
    """
    if is_class:
        _, counts = np.unique(y, return_counts=True)
        errors: _Floats = (predicted != y) / (1 - counts.max() / len(y))
    else:
        errors = (predicted - y) ** 2 / y.var()
    return errors


def find_identifiers(table: SplitTable, names: Sequence[str] | None) -> Iterator[str]:
    """Yield the features that number the rows: different whole numbers, hardly any left out, or in the order of rows.

    A feature of another kind can have different values too, but not so densely.
    """
    columns = table_columns(table)
    if columns is None or len(columns) < _MIN_ROWS:
        return
    order = np.argsort(np.asarray(table.indices), kind="stable")
    for number, values in enumerate(columns.T):
        if not np.isfinite(values).all() or (values != np.round(values)).any():
            continue
        if len(np.unique(values)) < len(values):
            continue
        steps = np.diff(values[order])
        is_dense = values.max() - values.min() < 3 * len(values)
        if is_dense or (steps > 0).all() or (steps < 0).all():
            yield _column_name(names, number, columns.shape[1])


def _column_name(names: Sequence[str] | None, column: int, count: int) -> str:
    return names[column] if names is not None and len(names) == count else f"column {column}"
