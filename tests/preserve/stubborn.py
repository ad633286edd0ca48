"""An object that acts while it is kept or restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Stubborn:
    """Runs a function while its state is read, and another while it is written."""

    __slots__ = ("on_load", "on_read")

    def __init__(self, on_read: Callable[[], Any] = int, on_load: Callable[[], Any] = int) -> None:
        self.on_read, self.on_load = on_read, on_load

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        self.on_read()
        return {}

    def load_state_dict(self, _: dict[str, Any]) -> None:
        """Nothing."""
        self.on_load()
