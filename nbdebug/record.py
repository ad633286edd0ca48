"""What was recorded of a run: rows of numbers, thinned when they grow too many and never cut."""

from __future__ import annotations

from collections.abc import Mapping

MOST_ROWS = 20_000


class Record:
    """Rows by step. Past ``most`` every second row goes and the stride doubles, so that memory stays bounded."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.most, self.stride, self.seen = most, 1, 0
        self.rows: list[dict[str, float]] = []

    def append(self, row: Mapping[str, float]) -> None:
        """Keeps the row when its turn comes in the present stride."""
        if self.seen % self.stride == 0:
            self.rows.append(dict(row))
        self.seen += 1
        if len(self.rows) > self.most:
            del self.rows[1::2]
            self.stride *= 2

    def column(self, name: str) -> list[tuple[float, float]]:
        """The values of one signal by step."""
        return [(row["step"], row[name]) for row in self.rows if name in row]
