"""The panels of an explanation: each looks at one sample in a way of its own."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from nbdebug.tools.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

NAMES = ("trust", "difference", "counterfactual", "examples", "features", "attention", "path")


def panels_of(explanation: Explanation) -> list[Panel[Explanation]]:
    """The panels that fit."""
    return [one for one in panels() if one.fits(explanation)]


@cache
def panels() -> tuple[Panel[Explanation], ...]:
    """All panels, in the order of the page."""
    return tuple(import_module(f"nbdebug.tools.explain.panel_{name}").PANEL for name in NAMES)
