"""What the user knows of each sample beside what the model is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.table import Table


def described(metadata: Any, table: Table) -> dict[str, NDArray[Any]]:
    """The columns of a frame or mapping for each row of a table: by the place in the data set, else in order.

    Raises SetupError for what has no columns, for lengths that fit neither, and for names that are taken.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) and not hasattr(metadata, "columns"):
        said = type(metadata).__name__
        raise SetupError(f"metadata is a {said}; expected a DataFrame or a mapping of columns. Name the columns.")
    found = {str(name): values_of(metadata[name]) for name in metadata}
    if taken := sorted({*found} & {*table.columns}):
        raise SetupError(f"metadata has a column {taken[0]!r}; expected another name: that one is taken. Rename it.")
    return {name: rows(name, values, table) for name, values in found.items()}


def values_of(column: Any) -> NDArray[Any]:
    """A column as an array of numbers or of texts; what is missing is NaN among numbers and "" among texts."""
    values = np.asarray(column.detach().cpu() if hasattr(column, "detach") else column)
    if values.dtype.kind in "fiu":
        return values
    if values.dtype.kind == "b":
        return np.where(values, "yes", "no")
    if values.dtype.kind == "O":
        import pandas as pd

        missing = np.asarray(pd.isna(values))
        return np.array(["" if no else str(one) for one, no in zip(values, missing, strict=True)])
    return values.astype(str)


def rows(name: str, values: NDArray[Any], table: Table) -> NDArray[Any]:
    """The values of a column for each row of the table."""
    if table.index is not None and len(values) > int(table.index.max(initial=-1)):
        return np.asarray(values[table.index])
    if table.index is None and len(values) == len(table):
        return values
    wanted = len(table) if table.index is None else int(table.index.max()) + 1
    raise SetupError(
        f"metadata column {name!r} has {len(values)} rows; expected {wanted}, one for each sample of the data set. "
        f"Pass all of them, in the order of the data set."
    )
