"""A contest: a small picture for each candidate, all on the same axes, and what sets them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, rounded, short
from nbdebug.views.series import sketch

COLUMNS = ("rank", "candidate", "rate", "training loss", "validation loss", "±", "")


@dataclass(frozen=True)
class Panel:
    """One candidate: its place, its losses at the end, and its curve with a band, point by point.

    ``tone`` is "good", "soft", "warning" or "error"; ``error`` is the half-width of the 95 % interval of the loss that
    decides; ``looks`` are the steps at which ``validation`` was measured.
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


@dataclass
class ContestView(View):
    """Candidates, the best first, while they run and afterwards; ``verdict`` is "" while they run.

    ``judged_by`` says whether the training loss decides ("train") or the validation loss ("val").
    """

    module: ClassVar[str] = "contest.js"
    height: ClassVar[int] = 320

    title: str = "Optimizers compared"
    status: str = ""
    panels: Sequence[Panel] = ()
    verdict: str = ""
    headline: str = ""
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    code: str = ""
    steps: int = 0
    judged_by: str = "train"
    stoppable: bool = False

    def state(self) -> dict[str, Any]:
        """All of it, each number to four digits; curves come thinned."""
        names = ("title", "status", "verdict", "headline", "code", "steps", "judged_by", "stoppable")
        lists = {name: plain(list(getattr(self, name))) for name in ("reasons", "notes")}
        panels = [self._panel(one) for one in self.panels]
        return {**{name: plain(getattr(self, name)) for name in names}, **lists, "panels": panels}

    def html(self) -> str:
        """Outcome, reasons, and a row for each candidate."""
        top = paragraph(f"{self.title} {self.status}") + paragraph(f"{self.verdict or 'running'}: {self.headline}")
        rows = [[*self._row(one), sketch(one.middle)] for one in self.panels]
        below = "".join(map(paragraph, (*self.notes, *self.code.splitlines())))
        return top + listed(self.reasons) + table(rows, (*COLUMNS, "shape")) + below

    def _row(self, one: Panel) -> list[str]:
        numbers = ["" if value is None else short(value) for value in (one.train, one.val, one.error)]
        return [str(one.rank or ""), one.name, one.rate, *numbers, one.words]

    def _panel(self, one: Panel) -> dict[str, Any]:
        texts = {name: plain(getattr(one, name)) for name in ("name", "rate", "words", "tone", "rank")}
        numbers = {name: plain(getattr(one, name)) for name in ("train", "val", "error")}
        lists = {
            name: [rounded(float(value)) for value in getattr(one, name)]
            for name in ("x", "middle", "low", "high", "looks", "validation")
        }
        return {**texts, **numbers, **lists}
