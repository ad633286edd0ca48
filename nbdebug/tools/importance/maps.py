"""Importance by place: of pictures and series, pixel by pixel, and patch by patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.tools.importance.features import is_last
from nbdebug.views.plain import rounded_all

if TYPE_CHECKING:
    from nbdebug.tools.importance.result import Importance

SIDE = 64


def maps(found: Importance) -> list[dict[str, Any]]:
    """Every map as rows × columns of numbers."""
    shown = [listed(f"{named(name)}{found.words} by place", flat(one)) for name, one in found.maps.items()]
    for name in dict.fromkeys(one.input for one in found.features if one.kind == "patch"):
        grid = patches(found, name)
        if np.isfinite(grid).any():
            shown.append(listed(f"{named(name)}{found.metric}: what permuting a patch costs", grid))
    return shown


def named(name: str) -> str:
    """The input, where there are several."""
    return "" if name == "input" else f"{name}: "


def flat(values: NDArray[Any]) -> NDArray[Any]:
    """A map of two axes, no longer than a side, the channels of a picture added up."""
    if values.ndim == 3:
        values = values.sum(2 if is_last(values.shape) else 0)
    if values.ndim == 2 and values.shape[0] > 4 * values.shape[1]:
        values = values.T
    for axis in (0, 1):
        parts = min(values.shape[axis], SIDE)
        starts = np.linspace(0, values.shape[axis], parts + 1).astype(int)[:-1]
        values = np.add.reduceat(values, starts, axis)
    return values


def patches(found: Importance, name: str) -> NDArray[Any]:
    """What the metric loses by each patch of an input, as the grid that they are."""
    mine = [(j, one.cut[-2:]) for j, one in enumerate(found.features) if one.kind == "patch" and one.input == name]
    tops = sorted({cut[0].start for _, cut in mine})
    lefts = sorted({cut[1].start for _, cut in mine})
    grid = np.full((len(tops), len(lefts)), np.nan)
    for j, cut in mine:
        grid[tops.index(cut[0].start), lefts.index(cut[1].start)] = found.drop[j]
    return grid


def listed(title: str, grid: NDArray[Any]) -> dict[str, Any]:
    """A map ready for JSON."""
    return {"title": title, "rows": rounded_all(grid, 3)}
