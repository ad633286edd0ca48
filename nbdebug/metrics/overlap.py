"""How far predicted regions cover the true ones: IoU and Dice, of an image and of all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.number import Number, around

Floats = NDArray[np.float64]


def areas(counts: Any, classes: int) -> tuple[Floats, Floats]:
    """Of each image and class the pixels in both regions, and in either; images × classes.

    ``counts`` is a sparse matrix, images × (class · classes + predicted class).
    """
    from scipy.sparse import csr_matrix

    cell = np.arange(classes * classes)
    true = csr_matrix((np.ones(len(cell)), (cell, cell // classes)))
    said = csr_matrix((np.ones(len(cell)), (cell, cell % classes)))
    both = np.asarray(counts[:, :: classes + 1].todense(), np.float64)
    either = np.asarray((counts @ true + counts @ said).todense(), np.float64) - both
    return both, either


def iou(both: Floats, either: Floats) -> Floats:
    """The share of the pixels in either region that are in both; NaN where there is none."""
    return np.asarray(np.divide(both, either, out=np.full(both.shape, np.nan), where=either > 0))


def dice(both: Floats, either: Floats) -> Floats:
    """Twice the pixels in both regions by those of each added up; NaN where there is none."""
    return np.asarray(np.divide(2 * both, both + either, out=np.full(both.shape, np.nan), where=either > 0))


def mean_iou(both: Floats, either: Floats) -> Number:
    """The mean over classes of the IoU of all images together, as Pascal VOC has it; its interval over the images.

    Everingham et al. 2015, doi:10.1007/s11263-014-0733-5; the interval by the delta method. A class that is nowhere
    counts nowhere.
    """
    total_both, total = both.sum(0), either.sum(0)
    there = total > 0
    if not there.any():
        return Number(float("nan"), float("nan"), float("nan"))
    each = total_both[there] / total[there]
    influence = ((both[:, there] - each * either[:, there]) / total[there]).mean(1) * len(both)
    return around(float(each.mean()), influence)
