"""A prediction table out of a DataFrame: columns of labels or scores, and all others beside them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.labels import NONE

if TYPE_CHECKING:
    import pandas


def as_frame(given: Any) -> pandas.DataFrame | None:
    """A DataFrame of pandas, or of what can become one, as polars and Arrow have; None where it is neither."""
    if hasattr(given, "to_pandas"):
        given = given.to_pandas()
    pandas = sys.modules.get("pandas")
    return given if pandas is not None and isinstance(given, pandas.DataFrame) else None


def of_frame(
    frame: pandas.DataFrame,
    target: str,
    prediction: str | None = None,
    scores: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> Predictions:
    """A table of a frame: the column of targets, and that of predictions or those of the scores, a class each.

    All other columns come along. A frame whose index is called "index", as ``to_frame`` gives it, tells the places in
    the data set by it. Raises SetupError for a column that is not there.
    """
    names = [target, *(scores if scores is not None else [prediction or "prediction"])]
    for name in names:
        if name not in frame:
            raise SetupError(f"column is {name!r}; expected one of {', '.join(map(str, frame))}. Name one of these.")
    if scores is not None:
        targets, class_names = labels(frame, names[:1], class_names or own_names(frame[target], scores))
        predictions = frame[list(scores)].to_numpy(np.float32, na_value=np.nan)
    else:
        (*targets, predictions), class_names = labels(frame, names, class_names)
    return Predictions.of(
        predictions,
        targets[0],
        class_names=class_names,
        index=frame.index.to_numpy() if frame.index.name == "index" else None,
        columns={str(name): frame[name].to_numpy() for name in frame if name not in names},
    )


def own_names(target: pandas.Series[Any], scores: Sequence[str]) -> Sequence[str] | None:
    """The names of the columns of scores, where the labels are among them."""
    return list(scores) if {*target.dropna().unique()} <= {*scores} else None


def labels(
    frame: pandas.DataFrame, names: Sequence[str], class_names: Sequence[str] | None
) -> tuple[list[Any], Sequence[str] | None]:
    """The labels in some columns, and the names of the classes where they are known: missing ones are no labels."""
    import pandas as pd

    columns = [frame[name] for name in names]
    if all(pd.api.types.is_numeric_dtype(one.dtype) for one in columns):
        return [
            one.to_numpy(np.float64, na_value=np.nan) if one.hasnans else one.to_numpy() for one in columns
        ], class_names
    texts = [one.astype(object).where(one.isna(), one.astype(str)) for one in columns]
    known = class_names or sorted({text for one in texts for text in one.dropna().unique()})
    places = {name: place for place, name in enumerate(known)}
    for one in texts:
        if lost := [text for text in one.dropna().unique() if text not in places]:
            raise SetupError(f"class_names lacks {lost[0]!r}; expected a name for each label. Add it.")
    return [one.map(places).fillna(NONE).to_numpy(np.int32) for one in texts], known
