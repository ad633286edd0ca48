"""Which features go together: by rank in the data, and by how one changes what another contributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.tools.importance.features import Feature

Floats = NDArray[np.float64]
CLOSE, MOST, BINS, LITTLE = 0.9, 500, 10, 0.02


def clusters(features: Sequence[Feature], values: Floats, close: float = CLOSE) -> list[list[int]]:
    """The columns that are tied by rank correlations of at least ``close``, directly or by others."""
    from scipy.sparse.csgraph import connected_components

    columns = [j for j, one in enumerate(features) if one.kind == "column" and np.ptp(values[:, j]) > 0]
    if len(columns) < 2 or len(columns) > MOST or len(values) < 10:
        return []
    _, labels = connected_components(np.abs(rank_correlations(values[:, columns])) >= close)
    found = [[columns[i] for i in np.flatnonzero(labels == one)] for one in range(labels.max() + 1)]
    return [one for one in found if len(one) > 1]


def rank_correlations(values: Floats) -> Floats:
    """Spearman's correlation of each pair of columns, none of which is constant."""
    from scipy.stats import rankdata

    return np.asarray(np.atleast_2d(np.corrcoef(rankdata(values, axis=0), rowvar=False)))


def partner(attributions: Any, values: Floats, j: int, among: Sequence[int]) -> int | None:
    """The feature that tells most of what is left of a feature's attributions among samples of like value.

    A line is taken out of them in each tenth of the feature's own values; of an additive model nothing much is left.
    None where no other feature is correlated with the rest beyond four standard errors.
    """
    left = attributions[:, j] - along(attributions[:, j], values[:, j])
    if len(left) < 2 * BINS or left.std() <= LITTLE * max(attributions[:, j].std(), 1e-12):
        return None
    rest = [i for i in among if i != j and np.ptp(values[:, i]) > 0]
    told = [tied(left, values[:, i], values[:, j]) for i in rest]
    return rest[int(np.argmax(told))] if told and max(told) > 4 / np.sqrt(len(left)) else None


def tied(left: Floats, other: Floats, own: Floats) -> float:
    """How strongly the rest goes with another feature in each half of the feature's own values, at the most."""
    upper = own > np.median(own)
    halves = [one for one in (upper, ~upper) if one.sum() > BINS and np.ptp(other[one]) > 0 and left[one].std() > 0]
    return max((abs(float(np.corrcoef(left[one], other[one])[0, 1])) for one in halves), default=0.0)


def along(attributions: Floats, values: Floats) -> Floats:
    """What the feature's own value tells of its attributions: a line in each tenth."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    place, found = np.searchsorted(edges, values), np.zeros(len(values))
    for one in np.unique(place):
        mine = place == one
        x, y = values[mine] - values[mine].mean(), attributions[mine]
        slope = (x * y).sum() / max((x * x).sum(), 1e-12)
        found[mine] = y.mean() + slope * x
    return found
