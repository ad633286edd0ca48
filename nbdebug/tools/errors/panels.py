"""The panels of the browser: each looks at the whole table, and leads back to rows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors


NAMES = ("flips", "scatter", "classes", "calibration", "slices", "fairness", "neighbors", "baselines")
ON_DISK = ("classes", "calibration", "slices", "fairness")  # these look at a part, and ask by values and cells
FIRST = 1_000  # rows that tell which panels fit


@dataclass(frozen=True)
class Panel:
    """One panel: its name, its title, which tables it is for, and what its module draws.

    ``state`` is computed when the page is made where ``quick``, else when the panel is opened; it may be asked again
    with options of the page. ``html`` is the same as plain, escaped HTML.
    """

    name: str
    title: str
    fits: Callable[[Errors], bool]
    state: Callable[..., dict[str, Any]]
    html: Callable[[dict[str, Any]], str]
    quick: bool = True


def panels_of(errors: Errors) -> list[Panel]:
    """The panels that fit; of a table on disk those whose queries hold for all rows, to be computed when opened."""
    if errors.table.in_memory:
        return [one for one in panels() if one.fits(errors)]
    first = replace(errors, table=errors.table.take(range(min(FIRST, len(errors.table)))), known={})
    return [replace(one, quick=False) for one in panels() if one.name in ON_DISK and one.fits(first)]


@cache
def panels() -> tuple[Panel, ...]:
    """All panels, in the order of the page."""
    return tuple(import_module(f"nbdebug.tools.errors.panel_{name}").PANEL for name in NAMES)
