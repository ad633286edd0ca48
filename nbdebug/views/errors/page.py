"""The error browser: an overview to click, a gallery of the samples behind it, and panels beside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.errors.overview import overview
from nbdebug.views.errors.written import written
from nbdebug.views.fitting import fitting_panels
from nbdebug.views.plain import plain

if TYPE_CHECKING:
    from nbdebug.predictions.grid import Grid
    from nbdebug.tools.errors.result import Errors
    from nbdebug.tools.panel import Panel

OF_CARDS = 200_000  # bytes of the pictures of the first cards; they stand in a page twice
OF_PANELS = 300_000  # bytes of the states of all panels: what a page of 1 MB has left for them


@dataclass
class ErrorsView(View):
    """The browser as it opens.

    ``columns`` maps a column to what ``nbdebug.tools.errors.described`` tells of it; ``judged`` is whether rows are
    right or wrong; ``first`` is the page of the gallery that needs no kernel; ``panels`` are with their states, None
    for one that is computed when it is opened.
    """

    module: ClassVar[str] = "errors/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("errors", "explain")
    height: ClassVar[int] = 480

    title: str = ""
    headline: str = ""
    notes: Sequence[str] = ()
    task: str = ""
    rows: int = 0
    grid: Grid | None = None
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sort: str = ""
    judged: bool = True
    first: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()
    tagged: Mapping[str, int] = field(default_factory=dict)
    explains: bool = False
    panels: Sequence[tuple[Panel[Errors], dict[str, Any] | None]] = ()

    def __post_init__(self) -> None:
        """Leaves out what is too large for a page, of samples and of panels."""
        self.first = {**self.first, "cards": list(fitting_cards(self.first.get("cards", ())))}
        self.panels = fitting_panels(self.panels, OF_PANELS)

    def state(self) -> dict[str, Any]:
        """All that the page holds; of a large grid the cells that are not zero."""
        texts = {name: plain(getattr(self, name)) for name in ("title", "headline", "task", "sort")}
        return {
            **texts,
            "notes": plain(list(self.notes)),
            "samples": self.rows,
            "judged": self.judged,
            "grid": None if self.grid is None else overview(self.grid),
            "columns": {name: dict(one) for name, one in self.columns.items()},
            "first": dict(self.first),
            "tags": list(self.tags),
            "tagged": dict(self.tagged),
            "explains": self.explains,
            "panels": [{"name": one.name, "title": one.title, "state": state} for one, state in self.panels],
        }

    def html(self) -> str:
        """Headline, counts or the most confused pairs, and the worst samples, for readers that run no scripts."""
        return written(self)


def fitting_cards(cards: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The cards; a sample that is too large for the page is not shown in it."""
    left = OF_CARDS
    for card in cards:
        size = len(json.dumps(card.get("shown")))
        if size > left:
            text = "too large for a saved page; Python shows it"
            yield {**card, "shown": {"kind": "trouble", "text": text}}
        else:
            left -= size
            yield dict(card)
