"""What a model goes by: bars, a beeswarm, dependence of attributions on values, maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, short


@dataclass
class ImportanceView(View):
    """The page; it asks nothing of Python.

    ``rows`` are features with the intervals of their ``size``, ``signed`` and ``drop``, the most important first;
    ``swarms`` belong to the first of them and have attributions and values of ``samples``.
    """

    module: ClassVar[str] = "importance/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("importance",)
    height: ClassVar[int] = 320

    title: str = ""
    headline: str = ""
    said: str = ""
    notes: Sequence[str] = ()
    metric: str = ""
    words: str = ""
    attributed: bool = True
    permuted: bool = True
    features: int = 0
    rows: Sequence[Mapping[str, Any]] = ()
    swarms: Sequence[Mapping[str, Any]] = ()
    samples: Sequence[int] = ()
    maps: Sequence[Mapping[str, Any]] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """All of it."""
        names = ("title", "headline", "said", "metric", "words", "attributed", "permuted", "features")
        lists = {name: [dict(one) for one in getattr(self, name)] for name in ("rows", "swarms", "maps")}
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "notes": plain(list(self.notes)),
            "samples": list(self.samples),
            **lists,
        }

    def html(self) -> str:
        """The headline, and a row a feature, for readers that run no scripts."""
        head = ("feature", self.words, "95 %", f"loss of {self.metric}", "95 %", "")
        rows = ([one["name"], *number(one["size"]), *number(one["drop"]), mark(one)] for one in self.rows)
        return (
            paragraph(self.title)
            + paragraph(self.headline)
            + paragraph(self.said)
            + table(rows, head)
            + listed(self.notes)
        )


def number(ends: Sequence[float | None]) -> list[str]:
    """A number and its interval as texts."""
    value, low, high = ends
    return ["" if value is None else short(value), "" if low is None or high is None else f"{low:.3g} to {high:.3g}"]


def mark(row: Mapping[str, Any]) -> str:
    """Whether the metric needs a feature."""
    return "needed beyond chance" if row["told"] else ""
