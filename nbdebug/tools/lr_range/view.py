"""View of a range test: curves, suggestions and confirmation runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, round_number, to_json_value
from nbdebug.views.line_chart import as_float, sparkline, thin_indices
from nbdebug.views.page import View

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.confirmation import ConfirmationRun, RunComparison
    from nbdebug.tools.lr_range.data import Suggestion, Sweep

_MAX_POINTS_ON_PAGE = 6_000
_QUANTITY_NAMES = {"lr": "learning rate", "momentum": "momentum", "weight_decay": "weight decay"}
_TRAINING_COLUMNS = ("trained at", "loss at the end", "over the lowest", "")


@dataclass
class LrRangeView(View):
    """View of a range test, live and finished.

    ``span`` is the first and last value of the plan, ``seeds`` are those of all planned sweeps. A row for ``append`` is
    a step of a sweep, ``{"sweep": 0, "value": 1e-3, "loss": 2.3, "smooth": 2.2}``, or of a confirmation run, with
    ``training`` and ``step`` in place of ``sweep`` and ``value``. ``trainings`` are the finished confirmation runs,
    ``trying`` is the rate of the one that begins, and ``standings`` compare them. ``verdict`` is "" during the sweeps.
    ``setting`` is code that sets VALUE, shown if there is no kernel; with a kernel there is a button, if ``usable``.
    ``recipes`` maps a name to code to paste.
    """

    module: ClassVar[str] = "tools/lr_range/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/lr_range",)
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
    trainings: Sequence[ConfirmationRun] = ()
    trying: float | None = None
    standings: Sequence[RunComparison] = ()

    def __post_init__(self) -> None:
        seeds = list(self.seeds) or [sweep.seed for sweep in self.sweeps]
        self._lines = [_Line(f"seed {seed}") for seed in seeds]
        for line, finished_sweep in zip(self._lines, self.sweeps, strict=False):
            line.x, line.raw, line.y = (
                list(finished_sweep.values),
                list(finished_sweep.losses),
                list(finished_sweep.smooth),
            )
            line.ended = finished_sweep.ended
        self._trained = [
            _Line(_run_name(run), [*range(len(run.losses))], [*run.smooth], [*run.losses], run.ended)
            for run in self.trainings
        ]
        self._trained += [_Line(f"{self.trying:.3g}")] if self.trying is not None else []

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Add one step of a sweep or of a confirmation run."""
        index_key, position_key, lines = (
            ("training", "step", self._trained) if "training" in row else ("sweep", "value", self._lines)
        )
        numbers = {name: as_float(row[name]) for name in (index_key, position_key, "loss", "smooth")}
        line = lines[int(numbers[index_key])]
        for column, name in ((line.x, position_key), (line.raw, "loss"), (line.y, "smooth")):
            column.append(numbers[name])
        self.count += 1
        return numbers

    def head(self) -> dict[str, Any]:
        """Return what a tool may change between two rows."""
        return {"status": to_json_value(self.status)}

    def state(self) -> dict[str, Any]:
        """Return curves, suggestions and texts, thinned to fit a page."""
        max_points = max(100, _MAX_POINTS_ON_PAGE // max(1, len(self._lines) + len(self._trained)))
        texts = {
            name: to_json_value(getattr(self, name))
            for name in ("title", "verdict", "headline", "judgement", "setting")
        }
        lists = {name: to_json_value(list(getattr(self, name))) for name in ("reasons", "notes")}
        switches = {"log": False, "log_x": self.mode == "exp", "stoppable": self.stoppable, "usable": self.usable}
        return {
            **texts,
            **lists,
            **switches,
            **self.head(),
            "x_label": "lr" if self.quantity == "lr" else _QUANTITY_NAMES.get(self.quantity, self.quantity),
            "y_label": "loss",
            "span": list(self.span),
            "current": to_json_value(self.current),
            "suggestions": [_suggestion(item) for item in self.suggestions],
            "recommended": _suggestion(self.recommended) if self.recommended else None,
            "recipes": dict(self.recipes),
            "lines": [item.state(max_points) for item in self._lines],
            "trained": [item.state(max_points) for item in self._trained],
            "standings": [_comparison_dict(item) for item in self.standings],
        }

    def html(self) -> str:
        """Return the verdict, the suggestions, and a row for each sweep."""
        words = html_paragraph(f"{self.verdict or 'running'}: {self.headline} {self.status}")
        judgement_text = html_paragraph(
            f"Yours, {format_value(self.current)}: {self.judgement}" if self.judgement else ""
        )
        suggestions = [*filter(None, [self.recommended]), *self.suggestions]
        readings = html_table(
            [_suggestion_row(item) for item in suggestions],
            ("read as", _QUANTITY_NAMES.get(self.quantity, self.quantity), "interval"),
        )
        sweeps = html_table(
            [[item.name, f"{len(item.x)} steps", item.ended, sparkline(item.y)] for item in self._lines]
        )
        training_table = (
            html_table([_comparison_row(item) for item in self.standings], _TRAINING_COLUMNS) if self.standings else ""
        )
        code = "".join(f"<pre>{escape(item)}</pre>" for item in self.recipes.values() if item)
        top = html_paragraph(self.title) + words + html_list(self.reasons) + judgement_text + training_table + readings
        return top + sweeps + html_list(self.notes) + code


@dataclass
class _Line:
    """The columns of one sweep."""

    name: str
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    ended: str = ""

    def state(self, max_points: int) -> dict[str, Any]:
        indices = thin_indices(self.raw, max_points)
        columns = {name: [round_number(getattr(self, name)[i]) for i in indices] for name in ("y", "raw")}
        return {
            "name": self.name,
            "x": [float(f"{self.x[i]:.6g}") for i in indices],
            **columns,
            "bad": 0,
            "ended": self.ended,
        }


def _run_name(run: ConfirmationRun) -> str:
    """Return the rate of a run, or "one-cycle" with its peak."""
    return f"one-cycle {run.rate:.3g}" if run.schedule == "one-cycle" else f"{run.rate:.3g}"


def _suggestion(suggestion: Suggestion) -> dict[str, Any]:
    values = {name: to_json_value(getattr(suggestion, name)) for name in ("value", "low", "high")}
    return {
        "name": suggestion.name,
        "label": suggestion.label,
        **values,
        "each": to_json_value(list(suggestion.each)),
    }


def _comparison_dict(comparison: RunComparison) -> dict[str, Any]:
    return {
        "rate": to_json_value(comparison.rate),
        "schedule": comparison.schedule,
        "end": to_json_value(comparison.final_loss),
        "gap": comparison.excess_text,
        "word": comparison.verdict,
    }


def _comparison_row(comparison: RunComparison) -> list[str]:
    return [
        ("one-cycle " if comparison.schedule == "one-cycle" else "") + format_value(comparison.rate),
        "" if comparison.final_loss is None else format_value(comparison.final_loss),
        comparison.excess_text,
        comparison.verdict,
    ]


def _suggestion_row(suggestion: Suggestion) -> list[str]:
    interval = (
        "none" if suggestion.low is None else f"{format_value(suggestion.low)} to {format_value(suggestion.high)}"
    )
    return [
        suggestion.label,
        "none" if suggestion.value is None else format_value(suggestion.value),
        interval,
    ]
