"""Precision, recall and F1 of each class, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.intervals import LEVEL, Floats, wilson

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas


@dataclass(frozen=True)
class Share:
    """A share for each class, with the interval around it; NaN where a class gives no trials."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class PerClass:
    """What is true of each class of a confusion matrix.

    ``support`` counts the rows whose target it is, ``predicted`` those that were taken for it.
    """

    precision: Share
    recall: Share
    f1: Share
    support: Counts
    predicted: Counts

    def to_frame(self, names: Sequence[str]) -> pandas.DataFrame:
        """One row a class: each share with the ends of its interval, and the counts."""
        import pandas as pd

        columns: dict[str, Floats | Counts] = {}
        for name in ("precision", "recall", "f1"):
            one: Share = getattr(self, name)
            columns |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
        columns |= {"support": self.support, "predicted": self.predicted}
        return pd.DataFrame(columns, index=pd.Index(list(names), name="class"))


def per_class(matrix: Counts, level: float = LEVEL) -> PerClass:
    """Precision, recall and F1 from counts, targets × predictions.

    F1 is a function of the share of the hits among all rows that are of a class or were taken for it, and so is its
    interval.
    """
    hits, support, predicted = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    either = share(hits, support + predicted - hits, level)
    f1 = Share(*(2 * one / (1 + one) for one in (either.value, either.low, either.high)))
    return PerClass(share(hits, predicted, level), share(hits, support, level), f1, support, predicted)


def share(hits: Counts, trials: Counts, level: float) -> Share:
    """A share and its interval."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return Share(hits / trials, *wilson(hits, trials, level))
