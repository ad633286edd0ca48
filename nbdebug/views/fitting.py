"""What a page has room for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

One = TypeVar("One")
Told = dict[str, Any] | None


def fitting_panels(panels: Sequence[tuple[One, Told]], room: int) -> list[tuple[One, Told]]:
    """The panels with their states, of so many bytes together; what has no room waits until its panel is opened."""
    found: list[tuple[One, Told]] = []
    for panel, state in panels:
        size = len(json.dumps(state))
        fits = size <= room
        room -= size if fits else 0
        found.append((panel, state if fits else None))
    return found
