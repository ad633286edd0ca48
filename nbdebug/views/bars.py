"""Bars with names, as results draw them into matplotlib axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars(ax: Axes, names: Sequence[str], values: Any, **look: Any) -> None:
    """A bar for each name, the first one on top; bars of the same name stay apart. ``look`` is for ``Axes.barh``."""
    ax.barh(range(len(names)), values, **look)
    ax.set_yticks(range(len(names)), names)
    ax.yaxis.set_inverted(True)
