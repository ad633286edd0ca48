"""Prediction tables from arrays, a DataFrame or Parquet files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.labels import NO_LABEL
from nbdebug.predictions.parquet_table import MAX_ROWS_IN_MEMORY, ParquetTable

if TYPE_CHECKING:
    import pandas


def to_pandas_frame(data: Any) -> pandas.DataFrame | None:
    """Return a pandas DataFrame, converted from polars or Arrow if necessary; None for other objects."""
    if hasattr(data, "to_pandas"):
        data = data.to_pandas()
    pandas = sys.modules.get("pandas")
    return data if pandas is not None and isinstance(data, pandas.DataFrame) else None


def _table_from_frame(
    frame: pandas.DataFrame,
    target: str,
    prediction: str | None = None,
    scores: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> ClassificationTable:
    """Return a table from a frame: a column of targets, and one of predictions or one of scores per class.

    All other columns are included. An index named "index", as in ``to_frame``, holds the dataset indices. Raises
    SetupError for an unknown column.
    """
    names = [target, *(scores if scores is not None else [prediction or "prediction"])]
    for name in names:
        if name not in frame:
            raise SetupError(f"column is {name!r}; expected one of {', '.join(map(str, frame))}. Pass one of these.")
    if scores is not None:
        targets, class_names = _encode_label_columns(
            frame, names[:1], class_names or _class_names_from_columns(frame[target], scores)
        )
        predictions = frame[list(scores)].to_numpy(np.float32, na_value=np.nan)
    else:
        (*targets, predictions), class_names = _encode_label_columns(frame, names, class_names)
    return ClassificationTable.from_arrays(
        predictions,
        targets[0],
        class_names=class_names,
        index=frame.index.to_numpy() if frame.index.name == "index" else None,
        columns={str(name): frame[name].to_numpy() for name in frame if name not in names},
    )


def _class_names_from_columns(target: pandas.Series[Any], scores: Sequence[str]) -> Sequence[str] | None:
    """Return the names of the score columns if they contain all labels."""
    return list(scores) if {*target.dropna().unique()} <= {*scores} else None


def _encode_label_columns(
    frame: pandas.DataFrame, names: Sequence[str], class_names: Sequence[str] | None
) -> tuple[list[Any], Sequence[str] | None]:
    """Return the labels of some columns, and the class names if known; missing values are missing labels."""
    import pandas as pd

    columns = [frame[name] for name in names]
    if all(pd.api.types.is_numeric_dtype(column.dtype) for column in columns):
        return [
            column.to_numpy(np.float64, na_value=np.nan) if column.hasnans else column.to_numpy() for column in columns
        ], class_names
    texts = [column.astype(object).where(column.isna(), column.astype(str)) for column in columns]
    known_names = class_names or sorted({text for column in texts for text in column.dropna().unique()})
    index_by_name = {name: class_index for class_index, name in enumerate(known_names)}
    for column in texts:
        if unknown := [text for text in column.dropna().unique() if text not in index_by_name]:
            raise SetupError(f"class_names lacks {unknown[0]!r}; expected a name for each label. Add it.")
    return [column.map(index_by_name).fillna(NO_LABEL).to_numpy(np.int32) for column in texts], known_names


def make_table(
    predictions: Any,
    targets: Any = None,
    *,
    prediction: str | None = None,
    scores: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
) -> ClassificationTable | ParquetTable:
    """Return the table of predictions and targets; a table is returned unchanged.

    For files and frames ``targets`` and ``prediction`` name columns. Files with too many rows for memory stay on disk.
    Raises SetupError for arguments that do not match.
    """
    if isinstance(predictions, ClassificationTable | ParquetTable):
        return predictions
    if isinstance(predictions, str | Path):
        if scores is not None or columns is not None:
            raise SetupError("scores or columns are passed with a path; expected them in the file. Read it as a frame.")
        return _table_from_files(predictions, targets or "target", prediction or "prediction", class_names)
    frame = to_pandas_frame(predictions)
    if frame is None and targets is None:
        raise SetupError("targets is None; expected labels for the predictions. Pass targets=.")
    if frame is None:
        return ClassificationTable.from_arrays(predictions, targets, class_names=class_names, columns=columns)
    return _table_from_frame(frame, targets or "target", prediction, scores, class_names).with_columns(columns or {})


def _table_from_files(
    path: str | Path, target: str, prediction: str, class_names: Sequence[str] | None
) -> ClassificationTable | ParquetTable:
    """Return the table of a file or folder, also of a folder with the parts of a distributed evaluation."""
    from nbdebug.predictions.distributed import contains_parts, read_parts

    if contains_parts(path):
        return read_parts(path)
    table = ParquetTable.open(path, target, prediction, class_names)
    return table.load() if len(table) <= MAX_ROWS_IN_MEMORY else table
