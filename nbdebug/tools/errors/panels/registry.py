"""The panels of the error browser, in page order."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from nbdebug.views.panel import Panel, load_panels

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

PANEL_MODULES = ("flips", "residuals", "classes", "calibration", "slices", "fairness", "neighbors", "baselines")
DISK_TABLE_PANELS = ("classes", "calibration", "slices", "fairness")  # they use sampled rows and query by value
_ROWS_FOR_FIT_CHECK = 1_000  # rows used to check which panels fit


def applicable_panels(errors: ErrorData) -> list[Panel[ErrorData]]:
    """Return the panels that fit; for a table on disk, those whose queries apply to all rows, computed on opening."""
    if errors.table.in_memory:
        return [panel for panel in all_panels() if panel.fits(errors)]
    first = replace(errors, table=errors.table.take(range(min(_ROWS_FOR_FIT_CHECK, len(errors.table)))), _cache={})
    return [
        replace(panel, quick=False) for panel in all_panels() if panel.name in DISK_TABLE_PANELS and panel.fits(first)
    ]


@cache
def all_panels() -> tuple[Panel[ErrorData], ...]:
    """Return all panels, in page order."""
    return load_panels("nbdebug.tools.errors.panels", PANEL_MODULES)
