"""What a table of classes comes to as data: the numbers behind the panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.metrics.calibration import Reliability, reliability
from nbdebug.metrics.curves import Curves, curves
from nbdebug.metrics.pairs import confused_pairs
from nbdebug.metrics.scaling import Scaling, scaling
from nbdebug.metrics.thresholds import Thresholds, thresholds
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.disk.stored import Stored
from nbdebug.predictions.one_class import OneClass, keep_chance, listed, names_of, one_class
from nbdebug.predictions.scores import form_of
from nbdebug.predictions.table import Table
from nbdebug.tools.errors.told import told

if TYPE_CHECKING:
    import pandas


def classes(table: Table) -> Predictions:
    """The table, if it is one of classes; raises SetupError for others."""
    if not isinstance(table, Predictions):
        raise SetupError(
            f"the table is one of {table.task or 'another kind'}; expected classification. Ask for rows()."
        )
    return table


def class_frame(table: Table) -> pandas.DataFrame:
    """One row a class: precision, recall and F1 with the ends of their intervals, and the counts."""
    found = told(table)
    if found is None:
        raise SetupError(f"the table is one of {table.task or 'another kind'}; expected classes or labels. Ask rows().")
    return found.shares.to_frame(found.names)


def pair_frame(table: Table, most: int) -> pandas.DataFrame:
    """Which class was taken for which, the most often first."""
    import pandas as pd

    found = table if isinstance(table, Stored) else classes(table)
    pairs = confused_pairs(found.matrix, most)
    names = [{"target": found.classes[one.target], "prediction": found.classes[one.prediction]} for one in pairs]
    rows = [{**vars(one), **name} for one, name in zip(pairs, names, strict=True)]
    return pd.DataFrame(rows, columns=["target", "prediction", "count", "share", "low", "high", "back"])


def pair_lines(table: Table, most: int = 3) -> list[str]:
    """A line for each of the classes that are taken for each other most often; none where rows have no one class."""
    if not isinstance(table, (Predictions, Stored)) or len(table.classes) < 3:
        return []
    found = (
        (table.classes[one.target], table.classes[one.prediction], one) for one in confused_pairs(table.matrix, most)
    )
    return [f"  {a} taken for {b}: {one.count:,} ({one.share:.1%}), {one.back:,} back" for a, b, one in found]


def one_of(table: Table, of: int | str | None) -> OneClass:
    """A class against the rest, the second of two if none is named; raises SetupError without chances."""
    if of is None and not (isinstance(table, Predictions) and len(table.classes) == 2):
        known = listed(names_of(table)) or "no classes"
        raise SetupError(f"of is None; expected one of {known}. Give its name or number.")
    found = one_class(table, 1 if of is None else of)
    if found is None:
        raise SetupError(
            "the table holds no chance of that class; expected scores of all. Pass scores as predictions=."
        )
    return found


def curves_of(table: Table, of: int | str | None) -> Curves:
    """The curves of a class against the rest; raises SetupError where no rows or all are of it."""
    one = one_of(table, of)
    found = curves(one.chance, one.target)
    if found is None:
        both = f"{int(one.target.sum())} of {len(one.target)} rows"
        raise SetupError(f"class {one.name!r} has {both}; expected some, and some others. Take another class.")
    return found


def thresholds_of(table: Table, of: int | str | None) -> Thresholds:
    """What each threshold on the chance of a class comes to; the chance becomes a column of the table."""
    one = one_of(table, of)
    keep_chance(table, 1 if of is None else of)
    return thresholds(one.chance, one.target, one.usual)


def calibration_of(table: Table, of: int | str | None) -> Reliability:
    """Confidence against accuracy, or the chance of a class against how often it is; SetupError without confidences."""
    if of is not None:
        one = one_of(table, of)
        return reliability_of(one.chance, one.target)
    found = classes(table)
    sure = found.columns.get("confidence")
    if sure is None:
        raise SetupError("the table holds no confidence; expected scores. Pass scores as predictions=.")
    known = (found.target >= 0) & np.isfinite(sure)
    return reliability_of(sure[known], found.right[known])


def reliability_of(sure: np.ndarray, right: np.ndarray) -> Reliability:
    """The reliability of some rows; raises SetupError where there are none."""
    if not len(sure):
        raise SetupError("no row has both a target and a confidence; expected some. Check the labels and the scores.")
    return reliability(sure, right)


def scaling_of(table: Table) -> Scaling:
    """A temperature and what it does to rows that it was not fitted on; SetupError where not all scores are kept."""
    found = classes(table)
    if found.scores is None:
        raise SetupError("the table keeps no scores; expected all, up to 16 million. Make it of fewer rows.")
    known = (found.target >= 0) & np.isfinite(found.scores).all(1)
    if int(known.sum()) < 2:
        raise SetupError(f"{int(known.sum())} rows have a target and scores; expected two. Check labels and scores.")
    scores = found.scores[known]
    if form_of(scores) == "probabilities":
        scores = np.log(np.maximum(scores, np.finfo(np.float32).tiny))
    return scaling(scores, found.target[known].astype(np.int64))
