"""How well chances tell one class from the rest: the ROC and the precision-recall curve, with their areas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import LEVEL, Floats, normal, wilson
from nbdebug.metrics.thresholds import Thresholds, thresholds

if TYPE_CHECKING:
    import pandas

CERTAIN = 1e-12  # how near to 0 or 1 the end of an interval is looked for


@dataclass(frozen=True)
class Curve:
    """The points (x, y) of a curve and the area under it, with its interval.

    ``thresholds`` are the chances at which the points lie: whoever has that much or more is taken for the class.
    """

    x: Floats
    y: Floats
    thresholds: Floats
    area: float
    low: float
    high: float

    def to_frame(self) -> pandas.DataFrame:
        """One row a point."""
        import pandas as pd

        return pd.DataFrame({"x": self.x, "y": self.y, "threshold": self.thresholds})


@dataclass(frozen=True)
class Curves:
    """Both curves of one class, and how many of the ``rows`` are ``of`` it, which is the area of a guess.

    ``roc`` is the share of hits over the share of false alarms; ``precision_recall`` is precision over recall, whose
    area is the average precision.
    """

    roc: Curve
    precision_recall: Curve
    of: int
    rows: int


def curves(chance: NDArray[Any], target: NDArray[Any], level: float = LEVEL) -> Curves | None:
    """Both curves of chances and targets, true or 1 where a row is of the class; None where all are or none is.

    The points are those of ``roc_curve`` and ``precision_recall_curve`` of scikit-learn, the areas those of
    ``roc_auc_score`` and ``average_precision_score``; its own take seconds to import, and four sorts.
    """
    found = thresholds(chance, target, usual=None)
    if not (found.of and found.others):
        return None
    return Curves(roc(found, level), precision_recall(found, level), found.of, found.of + found.others)


def roc(found: Thresholds, level: float = LEVEL) -> Curve:
    """The share of hits over the share of false alarms, and the area under it.

    The interval is the one of Newcombe 2006, doi:10.1002/sim.2324, method 5, which is no point where the area is 1.
    """
    hits, alarms = np.append(0, found.hits[::-1]), np.append(0, found.alarms[::-1])
    twice = int((np.diff(alarms) * (hits[1:] + hits[:-1])).sum())
    area = twice / (2 * found.of * found.others)
    low, high = area_interval(area, found.of, found.others, level)
    return Curve(alarms / found.others, hits / found.of, np.append(np.inf, found.at[::-1]), area, low, high)


def precision_recall(found: Thresholds, level: float = LEVEL) -> Curve:
    """Precision over recall, and the average precision.

    Its interval is that of a share among the rows of the class (Boyd, Eng and Page 2013,
    doi:10.1007/978-3-642-40994-3_29), as Wilson has it.
    """
    recall = np.append(0, found.recall[::-1])
    precision = np.append(1, found.precision[::-1])
    area = float((np.diff(recall) * precision[1:]).sum())
    low, high = wilson(area * found.of, found.of, level)
    return Curve(recall, precision, np.append(np.inf, found.at[::-1]), area, float(low), float(high))


def area_interval(area: float, of: int, others: int, level: float = LEVEL) -> tuple[float, float]:
    """The areas from which the one that was found is as far as chance allows, below and above.

    The spread at each of them is that of Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747.
    """
    from scipy.optimize import brentq

    mean = (of + others) / 2 - 1

    def beyond(true: float) -> float:
        spread = 1 + mean * ((1 - true) / (2 - true) + true / (1 + true))
        return float((area - true) ** 2 - normal(level) ** 2 * true * (1 - true) * spread / (of * others))

    low = brentq(beyond, 0, min(area, 1 - CERTAIN)) if area > CERTAIN else 0.0
    high = brentq(beyond, max(area, CERTAIN), 1) if area < 1 - CERTAIN else 1.0
    return float(low), float(high)
