"""An object that runs functions while its state is read or loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StateDictCallbacks:
    """Calls a function when its state is read, and another when it is loaded."""

    __slots__ = ("on_load", "on_read")

    def __init__(self, on_read: Callable[[], Any] = int, on_load: Callable[[], Any] = int) -> None:
        self.on_read, self.on_load = on_read, on_load

    def state_dict(self) -> dict[str, Any]:
        self.on_read()
        return {}

    def load_state_dict(self, _: dict[str, Any]) -> None:
        self.on_load()
