"""Weights that shrank to almost zero in a run, and whether they had lost their gradient before that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbdebug.exceptions import NotChecked
from nbdebug.records.layer_signals import Values, get_layer_signal, layer_weights
from nbdebug.records.record import Record

SHRUNK_SHARE = 0.01  # of the largest norm
_EARLY_SHARE = 0.8  # of the largest norm, which each of the weights still has
_MEDIAN_GAP = 1.2  # in powers of ten, below the largest gradient of a layer


@dataclass(frozen=True)
class _ShrunkWeights:
    """Weights whose norm ended at almost nothing, with the share that remains of it, and that of the ``others``."""

    names: tuple[str, ...]
    remaining: Values
    others: Values
    last_step: int


def find_shrunk_weights(record: Record, share: float = SHRUNK_SHARE) -> _ShrunkWeights:
    """Return the weights of layers whose norm, and the median of the last ones, is below a share of the largest.

    Raises NotChecked if there are too few snapshots.
    """
    sizes = get_layer_signal(record, "weight.norm")
    measured = set(sizes.names)
    sizes = sizes.select([name for name in layer_weights(record) if name in measured])
    with np.errstate(all="ignore"):
        remaining, recent = sizes.values[-1] / sizes.largest, sizes[-3:].median / sizes.largest
    shrunk = np.flatnonzero(np.maximum(remaining, recent) < share).tolist()
    names = tuple(sizes.names[i] for i in shrunk)
    return _ShrunkWeights(names, remaining[shrunk], np.delete(remaining, shrunk), int(sizes.steps[-1]))


def lost_gradient_first(record: Record, names: Sequence[str], decay: float | None) -> bool:
    """Check whether the gradients of some weights were much smaller than that of another layer before they shrank.

    ``decay`` is their weight decay. The ratio of gradient norm to weight norm must be below it for these weights, and
    above it for another layer. A decay that exceeds all gradients shrinks the weights at any depth.
    """
    if not names or not decay:
        return False
    weights = layer_weights(record)
    try:
        gradients, sizes = (get_layer_signal(record, f"{kind}.norm", weights, 1) for kind in ("gradient", "weight"))
    except NotChecked:
        return False
    shrunk = [weights.index(name) for name in names]
    with np.errstate(all="ignore"):
        has_shrunk = (sizes.values[:, shrunk] < _EARLY_SHARE * sizes.largest[shrunk]).any(1)
        rows = np.isin(gradients.steps, sizes.steps[~has_shrunk])
        early = gradients.values[rows] / sizes.values[np.isin(sizes.steps, gradients.steps[rows])]
        ratios = np.log10(np.maximum(early, np.finfo(np.float64).tiny))
    levels = np.median(ratios, axis=0) if len(ratios) else np.full(len(weights), np.nan)
    if not np.isfinite(levels).any() or not np.isfinite(levels[shrunk]).all():
        return False
    largest, limit = float(np.nanmax(levels)), float(np.log10(decay))
    return float(np.median(levels[shrunk])) < min(largest - _MEDIAN_GAP, limit) and limit < largest
