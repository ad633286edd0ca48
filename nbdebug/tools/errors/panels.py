"""The panels of the browser: each looks at the whole table, and leads back to rows of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from nbdebug.tools.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors


NAMES = ("flips", "scatter", "classes", "calibration", "slices", "fairness", "neighbors", "baselines")
ON_DISK = ("classes", "calibration", "slices", "fairness")  # these look at a part, and ask by values and cells
FIRST = 1_000  # rows that tell which panels fit


def panels_of(errors: Errors) -> list[Panel[Errors]]:
    """The panels that fit; of a table on disk those whose queries hold for all rows, to be computed when opened."""
    if errors.table.in_memory:
        return [one for one in panels() if one.fits(errors)]
    first = replace(errors, table=errors.table.take(range(min(FIRST, len(errors.table)))), known={})
    return [replace(one, quick=False) for one in panels() if one.name in ON_DISK and one.fits(first)]


@cache
def panels() -> tuple[Panel[Errors], ...]:
    """All panels, in the order of the page."""
    return tuple(import_module(f"nbdebug.tools.errors.panel_{name}").PANEL for name in NAMES)
