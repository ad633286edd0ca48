"""One number for all labels of samples that may have several: exact match, Hamming loss, micro and macro F1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.intervals import LEVEL
from nbdebug.metrics.number import Number, around
from nbdebug.metrics.number import share as number
from nbdebug.metrics.per_class import PerClass, Share, share

Truths = NDArray[np.bool_]
HIT, MISSED, FALSE_ALARM, ABSENT = range(4)


def per_label(counts: Counts, level: float = LEVEL) -> PerClass:
    """Precision, recall and F1 of each label from its hits, misses, false alarms and right absences."""
    hits, missed, false = counts[:, HIT], counts[:, MISSED], counts[:, FALSE_ALARM]
    either = share(hits, hits + missed + false, level)
    f1 = Share(*(2 * one / (1 + one) for one in (either.value, either.low, either.high)))
    return PerClass(
        share(hits, hits + false, level), share(hits, hits + missed, level), f1, hits + missed, hits + false
    )


def label_metrics(target: Truths, prediction: Truths, counts: Counts) -> dict[str, Number]:
    """``exact_match``, ``hamming_loss``, ``micro_f1`` and ``macro_f1``, with intervals over the samples.

    ``target`` and ``prediction`` are rows × labels, ``counts`` labels × (hit, missed, false alarm, rightly absent). A
    label that was never there nor said counts as 0 in the macro F1, as scikit-learn has it.
    """
    wrong = target != prediction
    exact = number(int((~wrong.any(1)).sum()), len(target))
    each = wrong.mean(1) if wrong.size else np.zeros(len(target))
    hamming = around(float(np.average(each)) if len(each) else float("nan"), each - each.mean() if len(each) else each)
    return {"exact_match": exact, "hamming_loss": hamming, **f1s(target, prediction, counts)}


def f1s(target: Truths, prediction: Truths, counts: Counts) -> dict[str, Number]:
    """Micro and macro F1; the intervals by the delta method over the samples."""
    hits = counts[:, HIT].astype(np.float64)
    whole = 2 * hits + counts[:, MISSED] + counts[:, FALSE_ALARM]
    each = np.divide(2 * hits, whole, out=np.zeros_like(hits), where=whole > 0)
    rows = max(len(target), 1)
    both, either = (target & prediction).astype(np.float32), target.astype(np.float32) + prediction
    weight = np.divide(rows, whole, out=np.zeros_like(hits), where=whole > 0) / max(len(hits), 1)
    macro = 2 * both @ weight - either @ (weight * each)
    micro = float(2 * hits.sum() / whole.sum()) if whole.sum() else 0.0
    scale = rows / whole.sum() if whole.sum() else 0.0
    by_row = scale * (2 * both.sum(1) - micro * either.sum(1))
    return {"micro_f1": around(micro, by_row), "macro_f1": around(float(np.average(each)), macro)}
