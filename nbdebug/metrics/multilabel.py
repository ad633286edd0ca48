"""Multi-label metrics: exact match, Hamming loss, micro and macro F1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.classification import ClassProportions, Counts, PerClassMetrics, class_proportions
from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, Number, number_from_influence
from nbdebug.statistics.intervals import proportion as number

_LabelMatrix = NDArray[np.bool_]
_TRUE_POSITIVE, _FALSE_NEGATIVE, _FALSE_POSITIVE, _TRUE_NEGATIVE = range(4)


def per_label_metrics(counts: Counts, level: float = CONFIDENCE_LEVEL) -> PerClassMetrics:
    """Return precision, recall and F1 of each label.

    ``counts`` has shape (labels, 4): true positives, false negatives, false positives, true negatives.
    """
    hits, misses, false_positives = counts[:, _TRUE_POSITIVE], counts[:, _FALSE_NEGATIVE], counts[:, _FALSE_POSITIVE]
    jaccard = class_proportions(hits, hits + misses + false_positives, level)
    f1 = ClassProportions(*(2 * values / (1 + values) for values in (jaccard.value, jaccard.low, jaccard.high)))
    return PerClassMetrics(
        class_proportions(hits, hits + false_positives, level),
        class_proportions(hits, hits + misses, level),
        f1,
        hits + misses,
        hits + false_positives,
    )


def multilabel_metrics(target: _LabelMatrix, prediction: _LabelMatrix, counts: Counts) -> dict[str, Number]:
    """Return ``exact_match``, ``hamming_loss``, ``micro_f1`` and ``macro_f1``, with intervals over samples.

    ``target`` and ``prediction`` have shape (rows, labels); ``counts`` is described in ``per_label_metrics``. A label
    that neither occurs nor is predicted counts as 0 in the macro F1, as in scikit-learn.
    """
    wrong = target != prediction
    exact = number(int((~wrong.any(1)).sum()), len(target))
    error_shares = wrong.mean(1) if wrong.size else np.zeros(len(target))
    hamming = number_from_influence(
        float(np.average(error_shares)) if len(error_shares) else float("nan"),
        error_shares - error_shares.mean() if len(error_shares) else error_shares,
    )
    return {"exact_match": exact, "hamming_loss": hamming, **_micro_and_macro_f1(target, prediction, counts)}


def _micro_and_macro_f1(target: _LabelMatrix, prediction: _LabelMatrix, counts: Counts) -> dict[str, Number]:
    """Return micro and macro F1 with delta-method intervals over the samples."""
    hits = counts[:, _TRUE_POSITIVE].astype(np.float64)
    denominators = 2 * hits + counts[:, _FALSE_NEGATIVE] + counts[:, _FALSE_POSITIVE]
    label_f1 = np.divide(2 * hits, denominators, out=np.zeros_like(hits), where=denominators > 0)
    rows = max(len(target), 1)
    intersections, sums = (target & prediction).astype(np.float32), target.astype(np.float32) + prediction
    weight = np.divide(rows, denominators, out=np.zeros_like(hits), where=denominators > 0) / max(len(hits), 1)
    macro_influence = 2 * intersections @ weight - sums @ (weight * label_f1)
    micro = float(2 * hits.sum() / denominators.sum()) if denominators.sum() else 0.0
    scale = rows / denominators.sum() if denominators.sum() else 0.0
    micro_influence = scale * (2 * intersections.sum(1) - micro * sums.sum(1))
    return {
        "micro_f1": number_from_influence(micro, micro_influence),
        "macro_f1": number_from_influence(float(np.average(label_f1)), macro_influence),
    }
