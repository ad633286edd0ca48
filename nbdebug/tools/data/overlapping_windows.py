"""Windows of series that overlap with windows of the other split by any shift, by an index of their steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable

_RUN, _MIN_DISTINCT, _MIN_LENGTH = 4, 3, 16
_MIN_SHARED_SHARE, _MIN_SHARED_STEPS = 0.25, 8
_MAX_STEPS, _MAX_OCCURRENCES = 4_000_000, 8


def find_overlapping_windows(tables: Mapping[str, SplitTable]) -> list[tuple[int, int]]:
    """Return pairs (training, validation) of dataset indices of windows that share a quarter of their steps.

    Each run of four steps is a key; runs with fewer than three different values are left out, since they can be equal
    by chance. A pair shares steps at one shift. The work grows with the number of steps. Time is the longer axis of
    floating-point series.
    """
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or len(train.inputs) != 1 or len(val.inputs) != 1:
        return []
    parts = [_as_series(table.inputs[0]) for table in (train, val)]
    if parts[0] is None or parts[1] is None or parts[0].shape[1:] != parts[1].shape[1:]:
        return []
    length = parts[0].shape[1]
    places: dict[int, list[tuple[int, int]]] = {}
    for row, step, key in _run_keys(parts[0][: _MAX_STEPS // length]):
        places.setdefault(key, []).append((row, step))
    shared = Counter[tuple[int, int, int]]()
    for val_row, val_step, key in _run_keys(parts[1][: _MAX_STEPS // length]):
        found = places.get(key, ())
        if len(found) <= _MAX_OCCURRENCES:
            shared.update((row, val_row, step - val_step) for row, step in found)
    needed = max(_MIN_SHARED_SHARE * length, _MIN_SHARED_STEPS) - _RUN + 1
    best: dict[int, tuple[int, int]] = {}
    for (row, val_row, shift), count in shared.items():
        if shift and count >= needed and count > best.get(val_row, (0, 0))[0]:
            best[val_row] = (count, row)
    return [(int(train.indices[row]), int(val.indices[val_row])) for val_row, (_, row) in best.items()]


def _as_series(part: Tensor) -> NDArray[np.float32] | None:
    """Return windows of the shape (windows, steps, channels); None for other inputs."""
    if part.dim() != 3 or not part.is_floating_point() or max(part.shape[1:]) < _MIN_LENGTH:
        return None
    steps = part if part.shape[1] >= part.shape[2] else part.transpose(1, 2)
    return np.ascontiguousarray(steps.float().numpy())


def _run_keys(windows: NDArray[np.float32]) -> Iterator[tuple[int, int, int]]:
    """Yield row, step and key of each run of steps with enough different values."""
    for row, window in enumerate(windows):
        runs = np.lib.stride_tricks.sliding_window_view(window, _RUN, axis=0).reshape(len(window) - _RUN + 1, -1)
        has_variety = (np.diff(np.sort(runs, 1), axis=1) != 0).sum(1) >= _MIN_DISTINCT - 1
        yield from ((row, step, hash(runs[step].tobytes())) for step in np.flatnonzero(has_variety).tolist())
