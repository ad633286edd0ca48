"""View of an optimizer comparison: one small chart per candidate, all on the same axes, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, round_number, to_json_value
from nbdebug.views.line_chart import sparkline
from nbdebug.views.page import View

_COLUMNS = ("rank", "candidate", "rate", "training loss", "validation loss", "±", "")


@dataclass(frozen=True)
class CandidatePanel:
    """One candidate: its rank, its final losses, and its loss curve with a band, point by point.

    ``tone`` is "good", "soft", "warning" or "error"; ``error`` is the half-width of the 95% interval of the loss used
    for ranking; ``looks`` are the steps at which ``validation`` was measured.
    """

    name: str
    rate: str = ""
    rank: int = 0
    words: str = ""
    tone: str = ""
    train: float | None = None
    val: float | None = None
    error: float | None = None
    x: Sequence[int] = ()
    middle: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    looks: Sequence[int] = ()
    validation: Sequence[float] = ()


def rank_texts(ranks: Sequence[int]) -> list[str]:
    """Return the place of each candidate as text, best first; "" for one without a rank.

    A place is told apart if no other candidate has it and all candidates above are better. Since "better" is not
    transitive, ranks may be 1, 1, 1, 1, 3.
    """
    return [
        "" if not rank else str(rank) if ranks.count(rank) == 1 and rank == i + 1 else "not told apart"
        for i, rank in enumerate(ranks)
    ]


@dataclass
class OptimizerComparisonView(View):
    """Candidates during and after the comparison, best first; ``verdict`` is "" while they run.

    ``outcome`` is the kind of the verdict, which chooses its sign: "clear", "tie", "none" or "stopped"; by default the
    verdict itself. ``quantity`` names what the curves show. ``judged_by`` is the loss used for ranking: "train" or
    "val"; "" for candidates without a table of losses.
    """

    module: ClassVar[str] = "tools/compare_optimizers/page.js"
    height: ClassVar[int] = 320

    title: str = "Optimizer comparison"
    status: str = ""
    panels: Sequence[CandidatePanel] = ()
    verdict: str = ""
    outcome: str = ""
    quantity: str = "training loss"
    headline: str = ""
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    code: str = ""
    steps: int = 0
    judged_by: str = "train"
    stoppable: bool = False

    @property
    def progress_text(self) -> str:
        """How far the runs are."""
        return self.status

    def state(self) -> dict[str, Any]:
        """Return the state for the browser, with numbers rounded to four digits and thinned curves."""
        names = (
            "title",
            "status",
            "verdict",
            "outcome",
            "quantity",
            "headline",
            "code",
            "steps",
            "judged_by",
            "stoppable",
        )
        lists = {name: to_json_value(list(getattr(self, name))) for name in ("reasons", "notes")}
        places = rank_texts([panel.rank for panel in self.panels])
        panels = [{**self._panel(panel), "place": place} for panel, place in zip(self.panels, places, strict=True)]
        return {**{name: to_json_value(getattr(self, name)) for name in names}, **lists, "panels": panels}

    def html(self) -> str:
        """Return the outcome, its reasons, and a row for each candidate as HTML."""
        top = html_paragraph(f"{self.title} {self.status}") + html_paragraph(
            f"{self.verdict or 'running'}: {self.headline}"
        )
        places = rank_texts([panel.rank for panel in self.panels])
        rows = [
            [place, *self._row(panel), sparkline(panel.middle)]
            for panel, place in zip(self.panels, places, strict=True)
        ]
        below = "".join(map(html_paragraph, (*self.notes, *self.code.splitlines())))
        return top + html_list(self.reasons) + html_table(rows, (*_COLUMNS, "shape")) + below

    def _row(self, panel: CandidatePanel) -> list[str]:
        numbers = ["" if value is None else format_value(value) for value in (panel.train, panel.val, panel.error)]
        return [panel.name, panel.rate, *numbers, panel.words]

    def _panel(self, panel: CandidatePanel) -> dict[str, Any]:
        texts = {name: to_json_value(getattr(panel, name)) for name in ("name", "rate", "words", "tone", "rank")}
        numbers = {name: to_json_value(getattr(panel, name)) for name in ("train", "val", "error")}
        lists = {
            name: [round_number(float(value)) for value in getattr(panel, name)]
            for name in ("x", "middle", "low", "high", "looks", "validation")
        }
        return {**texts, **numbers, **lists}
