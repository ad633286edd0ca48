"""Screens on which Stop is pressed at a chosen moment."""

from __future__ import annotations

from typing import Any

from nbdebug.views.live import Screen


class StopAfterRows(Screen):
    """Stop is pressed after this number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows_left = rows

    def append(self, row: Any) -> None:
        self.rows_left -= 1

    @property
    def stopped(self) -> bool:
        return self.rows_left <= 0


class StopAfterChecks(Screen):
    """Stop is pressed after a tool has checked the button this number of times."""

    def __init__(self, checks: int) -> None:
        self.checks_left = checks

    @property
    def stopped(self) -> bool:
        self.checks_left -= 1
        return self.checks_left < 0
