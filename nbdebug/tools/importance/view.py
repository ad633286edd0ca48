"""Pages of feature importance and of its drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, to_json_value
from nbdebug.views.page import View


@dataclass
class ImportanceView(View):
    """A static page that makes no requests to Python.

    ``rows`` are features with intervals of ``size``, ``signed`` and ``drop``, most important first; ``swarms`` belong
    to the first rows, with attributions and values of ``samples``.
    """

    module: ClassVar[str] = "tools/importance/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/importance",)
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
        """Return the state of the page as JSON values."""
        names = ("title", "headline", "said", "metric", "words", "attributed", "permuted", "features")
        lists = {name: [dict(item) for item in getattr(self, name)] for name in ("rows", "swarms", "maps")}
        return {
            **{name: to_json_value(getattr(self, name)) for name in names},
            "notes": to_json_value(list(self.notes)),
            "samples": list(self.samples),
            **lists,
        }

    def html(self) -> str:
        """Return the headline and a table of features, for readers without scripts."""
        head = ("feature", self.words, "95 %", f"drop in {self.metric}", "95 %", "")
        rows = (
            [row["name"], *_value_and_interval(row["size"]), *_value_and_interval(row["drop"]), _significance_text(row)]
            for row in self.rows
        )
        return (
            html_paragraph(self.title)
            + html_paragraph(self.headline)
            + html_paragraph(self.said)
            + html_table(rows, head)
            + html_list(self.notes)
        )


def _value_and_interval(ends: Sequence[float | None]) -> list[str]:
    value, low, high = ends
    return [
        "" if value is None else format_value(value),
        "" if low is None or high is None else f"{low:.3g} to {high:.3g}",
    ]


def _significance_text(row: Mapping[str, Any]) -> str:
    return "significant" if row["told"] else ""


@dataclass
class DriftView(View):
    """The page; ``measures`` holds the points of every feature, its change and its significance, by measure."""

    module: ClassVar[str] = "tools/importance/drift.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/importance",)
    height: ClassVar[int] = 240

    title: str = ""
    headline: str = ""
    notes: Sequence[str] = ()
    names: Sequence[str] = ()
    by: str = "share"
    features: Sequence[str] = ()
    measures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """Return the state of the page as JSON values."""
        texts = {name: to_json_value(getattr(self, name)) for name in ("title", "headline", "by")}
        lists = {name: list(getattr(self, name)) for name in ("notes", "names", "features")}
        return {**texts, **lists, "measures": {name: dict(measure) for name, measure in self.measures.items()}}

    def html(self) -> str:
        """Return the headline and a table of features, for readers without scripts."""
        measure = self.measures[self.by]
        rows = [
            [
                name,
                *(_format_point_value(point[0]) for point in points),
                _format_point_value(change[0]),
                "significant change" if is_significant else "",
            ]
            for name, points, change, is_significant in zip(
                self.features, measure["points"], measure["change"], measure["told"], strict=True
            )
        ]
        head = ("feature", *self.names, "change", "")
        return (
            html_paragraph(self.title) + html_paragraph(self.headline) + html_table(rows, head) + html_list(self.notes)
        )


def _format_point_value(value: float | None) -> str:
    return "" if value is None else format_value(value)
