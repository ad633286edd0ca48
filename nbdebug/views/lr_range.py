"""A range test: the curves of all sweeps over the rates, what is suggested, and a handle that reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, rounded, short
from nbdebug.views.series import number, sketch, thin

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.proof import Standing, Training
    from nbdebug.tools.lr_range.result import Suggestion, Sweep

POINTS_OF_A_PAGE = 6_000
NAMES = {"lr": "learning rate", "momentum": "momentum", "weight_decay": "weight decay"}
LABELS = {"minimum": "minimum ÷ 10", "divergence": "divergence ÷ 10"}
TRAINED = ("trained at", "loss at the end", "over the lowest", "")


@dataclass
class LrRangeView(View):
    """A range test, while it sweeps and afterwards.

    ``span`` is the first and the last value that it means to try, ``seeds`` are of all sweeps that it means to make.
    A row for ``append`` is one step of a sweep: ``{"sweep": 0, "value": 1e-3, "loss": 2.3, "smooth": 2.2}``, or of one
    training, with ``training`` and ``step`` in place of ``sweep`` and ``value``. ``trainings`` have stayed at one rate
    each, one at ``trying`` is about to begin, and ``standings`` are what they came to.
    ``verdict`` is "" while it sweeps. ``setting`` is code that sets the value, in which VALUE stands for it: what is
    shown where no Python is there to do it; where it is, there is a button for it, if ``usable``. ``recipes`` maps a
    name to code to paste.
    """

    module: ClassVar[str] = "lr_range.js"
    height: ClassVar[int] = 380

    title: str = "Learning-rate range test"
    quantity: str = "lr"
    mode: str = "exp"
    span: tuple[float, float] = (1e-7, 10.0)
    seeds: Sequence[int] = ()
    sweeps: Sequence[Sweep] = ()
    suggestions: Sequence[Suggestion] = ()
    recommended: Suggestion | None = None
    verdict: str = ""
    headline: str = ""
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    current: float | None = None
    judgement: str = ""
    setting: str = ""
    usable: bool = True
    recipes: Mapping[str, str] = field(default_factory=dict)
    status: str = ""
    stoppable: bool = False
    trainings: Sequence[Training] = ()
    trying: float | None = None
    standings: Sequence[Standing] = ()

    def __post_init__(self) -> None:
        """Turns sweeps into columns, to which rows are appended."""
        seeds = list(self.seeds) or [one.seed for one in self.sweeps]
        self._lines = [_Line(f"seed {seed}") for seed in seeds]
        for one, swept in zip(self._lines, self.sweeps, strict=False):
            one.x, one.raw, one.y = list(swept.values), list(swept.losses), list(swept.smooth)
            one.ended = swept.ended
        self._trained = [
            _Line(f"{one.rate:.3g}", [*range(len(one.losses))], [*one.smooth], [*one.losses], one.ended)
            for one in self.trainings
        ]
        self._trained += [_Line(f"{self.trying:.3g}")] if self.trying is not None else []

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Takes in one step of one sweep, or of one training."""
        of, at, lines = ("training", "step", self._trained) if "training" in row else ("sweep", "value", self._lines)
        numbers = {name: number(row[name]) for name in (of, at, "loss", "smooth")}
        line = lines[int(numbers[of])]
        for kept, name in ((line.x, at), (line.raw, "loss"), (line.y, "smooth")):
            kept.append(numbers[name])
        self.count += 1
        return numbers

    def head(self) -> dict[str, Any]:
        """What a tool may change between two rows."""
        return {"status": plain(self.status)}

    def state(self) -> dict[str, Any]:
        """Curves, suggestions and words, thinned to what a page can hold."""
        most = max(100, POINTS_OF_A_PAGE // max(1, len(self._lines) + len(self._trained)))
        texts = {name: plain(getattr(self, name)) for name in ("title", "verdict", "headline", "judgement", "setting")}
        lists = {name: plain(list(getattr(self, name))) for name in ("reasons", "notes")}
        switches = {"log": False, "log_x": self.mode == "exp", "stoppable": self.stoppable, "usable": self.usable}
        return {
            **texts,
            **lists,
            **switches,
            **self.head(),
            "x_label": "lr" if self.quantity == "lr" else NAMES.get(self.quantity, self.quantity),
            "y_label": "loss",
            "span": list(self.span),
            "current": plain(self.current),
            "suggestions": [_suggestion(one) for one in self.suggestions],
            "recommended": _suggestion(self.recommended) if self.recommended else None,
            "recipes": dict(self.recipes),
            "lines": [one.state(most) for one in self._lines],
            "trained": [one.state(most) for one in self._trained],
            "standings": [_told(one) for one in self.standings],
        }

    def html(self) -> str:
        """The verdict, the suggestions side by side, and a row for each sweep."""
        words = paragraph(f"{self.verdict or 'running'}: {self.headline} {self.status}")
        own = paragraph(f"Yours, {short(self.current)}: {self.judgement}" if self.judgement else "")
        shown = [*filter(None, [self.recommended]), *self.suggestions]
        readings = table(
            [_texts(one) for one in shown], ("read as", NAMES.get(self.quantity, self.quantity), "interval")
        )
        sweeps = table([[one.name, f"{len(one.x)} steps", one.ended, sketch(one.y)] for one in self._lines])
        trained = table([_standing(one) for one in self.standings], TRAINED) if self.standings else ""
        code = "".join(f"<pre>{escape(one)}</pre>" for one in self.recipes.values() if one)
        top = paragraph(self.title) + words + listed(self.reasons) + own + trained + readings
        return top + sweeps + listed(self.notes) + code


@dataclass
class _Line:
    """The columns of one sweep."""

    name: str
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    ended: str = ""

    def state(self, most: int) -> dict[str, Any]:
        """What the browser reads."""
        keep = thin(self.raw, most)
        columns = {name: [rounded(getattr(self, name)[i]) for i in keep] for name in ("y", "raw")}
        return {
            "name": self.name,
            "x": [float(f"{self.x[i]:.6g}") for i in keep],
            **columns,
            "bad": 0,
            "ended": self.ended,
        }


def _suggestion(one: Suggestion) -> dict[str, Any]:
    values = {name: plain(getattr(one, name)) for name in ("value", "low", "high")}
    return {"name": one.name, "label": LABELS.get(one.name, one.name), **values, "each": plain(list(one.each))}


def _told(one: Standing) -> dict[str, Any]:
    return {"rate": plain(one.rate), "end": plain(one.end), "gap": one.gap, "word": one.word}


def _standing(one: Standing) -> list[str]:
    return [short(one.rate), "" if one.end is None else short(one.end), one.gap, one.word]


def _texts(one: Suggestion) -> list[str]:
    interval = "none" if one.low is None else f"{short(one.low)} to {short(one.high)}"
    return [LABELS.get(one.name, one.name), "none" if one.value is None else short(one.value), interval]
