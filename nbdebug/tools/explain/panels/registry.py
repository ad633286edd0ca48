"""The panels of an explanation, in page order."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_PANEL_MODULES = ("reliability", "contrast", "counterfactuals", "examples", "features", "attention", "path")


def applicable_panels(explanation: ExplanationData) -> list[Panel[ExplanationData]]:
    """Return the panels that fit."""
    return [panel for panel in _all_panels() if panel.fits(explanation)]


@cache
def _all_panels() -> tuple[Panel[ExplanationData], ...]:
    """Return all panels, in page order."""
    return tuple(import_module(f"nbdebug.tools.explain.panels.{name}").PANEL for name in _PANEL_MODULES)
