"""Load the crashes: the development half from ``cases``, the held-out half from ``held_out``."""

from __future__ import annotations

import importlib
from pathlib import Path

from benchmarks.crashes.case import Crash, Half

FOLDERS: dict[Half, str] = {"development": "cases", "held-out": "held_out"}


def load(half: Half) -> list[Crash]:
    """The crashes of one half, by kind."""
    crashes: list[Crash] = []
    for path in sorted((Path(__file__).parent / FOLDERS[half]).glob("*.py")):
        module = importlib.import_module(f"benchmarks.crashes.{FOLDERS[half]}.{path.stem}")
        crashes.extend(module.CASES)
    return crashes
