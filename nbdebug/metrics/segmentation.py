"""IoU and Dice of predicted regions, per image and overall."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.statistics.intervals import Floats, Number, number_from_influence


def intersection_and_union(counts: Any, classes: int) -> tuple[Floats, Floats]:
    """Return the pixels in the intersection and in the union, each of shape (images, classes).

    ``counts`` is a sparse matrix, images × (class · classes + predicted class).
    """
    from scipy.sparse import csr_matrix

    cell = np.arange(classes * classes)
    target_columns = csr_matrix((np.ones(len(cell)), (cell, cell // classes)))
    predicted_columns = csr_matrix((np.ones(len(cell)), (cell, cell % classes)))
    intersection = np.asarray(counts[:, :: classes + 1].todense(), np.float64)
    union = np.asarray((counts @ target_columns + counts @ predicted_columns).todense(), np.float64) - intersection
    return intersection, union


def iou(intersection: Floats, union: Floats) -> Floats:
    """Return the intersection over union; NaN where the union is empty."""
    return np.asarray(np.divide(intersection, union, out=np.full(intersection.shape, np.nan), where=union > 0))


def dice(intersection: Floats, union: Floats) -> Floats:
    """Return the Dice coefficient; NaN where both regions are empty."""
    return np.asarray(
        np.divide(2 * intersection, intersection + union, out=np.full(intersection.shape, np.nan), where=union > 0)
    )


def mean_iou(intersection: Floats, union: Floats) -> Number:
    """Return the mean over classes of the IoU over all images, as in Pascal VOC; intervals are over the images.

    Everingham et al. 2015, doi:10.1007/s11263-014-0733-5; the interval is by the delta method. Classes that do not
    occur are left out.
    """
    total_intersection, total_union = intersection.sum(0), union.sum(0)
    occurs = total_union > 0
    if not occurs.any():
        return Number(float("nan"), float("nan"), float("nan"))
    class_iou = total_intersection[occurs] / total_union[occurs]
    influence = ((intersection[:, occurs] - class_iou * union[:, occurs]) / total_union[occurs]).mean(1) * len(
        intersection
    )
    return number_from_influence(float(class_iou.mean()), influence)
