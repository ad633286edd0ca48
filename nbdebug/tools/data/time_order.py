"""Whether validation comes after training in time, by a part of the samples that is named like a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.tools.data.sample_groups import named_columns, named_values

_TIME_NAMES = re.compile(r"(^|_)(time|timestamp|date|datetime|day|month|year)s?$", re.IGNORECASE)
_SPLITS, _MIN_TIMES = ("train", "val"), 10


@dataclass(frozen=True)
class TimeOrder:
    """The times of both splits, by the part of the samples that is called ``name``.

    ``earlier`` is the share of the validation samples that are earlier than the latest training sample.
    ``is_reversed`` is True if all validation samples are earlier than all training samples.
    """

    name: str
    earlier: float
    is_reversed: bool

    @property
    def text(self) -> str:
        """The order in words."""
        return (
            f"all validation samples are earlier than training (guessed from the name {self.name!r}), so that the "
            "score is that of predictions of the past"
        )


def compare_times(
    tables: Mapping[str, SplitTable], raw_batches: Mapping[str, Sequence[Any]], feature_names: Sequence[str] | None
) -> TimeOrder | None:
    """Compare the times of both splits; None without a part that is named like a time and has ten different values."""
    if not set(_SPLITS) <= set(tables):
        return None
    parts = [named_values(raw_batches.get(split, ()), _TIME_NAMES) for split in _SPLITS]
    columns = [named_columns(tables[split], feature_names, _TIME_NAMES) for split in _SPLITS]
    for train, val in (parts, columns):
        for name in train.keys() & val.keys():
            times = _as_times(train[name]), _as_times(val[name])
            if min(len(np.unique(side)) for side in times) >= _MIN_TIMES:
                earlier = float((times[1] < times[0].max()).mean())
                return TimeOrder(name, earlier, bool(times[1].max() < times[0].min()))
    return None


def _as_times(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return seconds of dates in ISO 8601, or numbers as they are; empty for other texts and missing values."""
    try:
        numbers = values.astype("datetime64[s]") if values.dtype.kind in "USO" else values
        times = numbers.astype(np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)
    return times if np.isfinite(times).all() else np.zeros(0)
