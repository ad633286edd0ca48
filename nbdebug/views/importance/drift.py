"""How importance changes: two dots a feature and a line between, or a line from point to point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, short


@dataclass
class DriftView(View):
    """The page; ``measures`` has for each name the points of every feature, its change, and whether that is told."""

    module: ClassVar[str] = "importance/drift.js"
    sheets: ClassVar[tuple[str, ...]] = ("importance",)
    height: ClassVar[int] = 240

    title: str = ""
    headline: str = ""
    notes: Sequence[str] = ()
    names: Sequence[str] = ()
    by: str = "share"
    features: Sequence[str] = ()
    measures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """All of it."""
        texts = {name: plain(getattr(self, name)) for name in ("title", "headline", "by")}
        lists = {name: list(getattr(self, name)) for name in ("notes", "names", "features")}
        return {**texts, **lists, "measures": {name: dict(one) for name, one in self.measures.items()}}

    def html(self) -> str:
        """The headline, and a row a feature, for readers that run no scripts."""
        one = self.measures[self.by]
        rows = [
            [name, *(text(point[0]) for point in points), text(change[0]), "changed beyond chance" if told else ""]
            for name, points, change, told in zip(self.features, one["points"], one["change"], one["told"], strict=True)
        ]
        head = ("feature", *self.names, "change", "")
        return paragraph(self.title) + paragraph(self.headline) + table(rows, head) + listed(self.notes)


def text(value: float | None) -> str:
    """A number as text."""
    return "" if value is None else short(value)
