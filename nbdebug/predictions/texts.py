"""The values of columns as text, by which they are filtered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Texts:
    """Which values are among some texts; each different value of a column is made text once."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[NDArray[Any], NDArray[np.str_]]] = {}

    def among(self, name: str, values: NDArray[Any], wanted: Sequence[str]) -> NDArray[np.bool_]:
        """Which values of a column are among the wanted ones, as text."""
        if values.dtype.kind == "U":
            return np.asarray(np.any([values == one for one in wanted], axis=0))
        numbers, different = self.numbered(name, values)
        return np.asarray(np.isin(different, list(wanted))[numbers])

    def ranks(self, name: str, values: NDArray[Any], descending: bool) -> NDArray[Any]:
        """The place of each value of a column among all different texts; one without a value comes last."""
        numbers, different = self.numbered(name, values)
        places = np.full(len(different), -1 if descending else len(different), np.int32)
        places[np.argsort(different[:-1], kind="stable")] = np.arange(len(different) - 1)
        return np.asarray(places[numbers])

    def numbered(self, name: str, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.str_]]:
        """A number for each value of a column, and the texts that the numbers stand for."""
        if name not in self.known:
            self.known[name] = numbered(values)
        return self.known[name]


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.str_]]:
    """A number for each value, and the texts that the numbers stand for; None and NaN share the last."""
    import pandas as pd

    numbers, different = pd.factorize(values)
    missing = str(values[np.argmin(numbers)]) if len(values) else ""
    small = np.min_scalar_type(-len(different) - 1)
    return numbers.astype(small), np.append(np.asarray(different).astype(str), missing)
