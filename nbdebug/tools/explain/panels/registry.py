"""The panels of an explanation, in page order."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from nbdebug.views.panel import Panel, load_panels

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_PANEL_MODULES = ("reliability", "contrast", "counterfactuals", "examples", "features", "attention", "path")


def applicable_panels(explanation: ExplanationData) -> list[Panel[ExplanationData]]:
    """Return the panels that fit."""
    return [panel for panel in _all_panels() if panel.fits(explanation)]


@cache
def _all_panels() -> tuple[Panel[ExplanationData], ...]:
    """Return all panels, in page order."""
    return load_panels("nbdebug.tools.explain.panels", _PANEL_MODULES)
