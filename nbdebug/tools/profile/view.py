"""View of a profile: verdict, timeline of the steps, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.formatting import html_list, html_paragraph, html_table, to_json_value
from nbdebug.source.location import get_cell_number
from nbdebug.tools.batch_size.result import format_bytes
from nbdebug.tools.profile.phases import PHASES
from nbdebug.tools.profile.time_profile import Advice, LineTime, ModuleCost, SpeedTrial, TimeProfile, milliseconds
from nbdebug.views.page import View

_NO_VALUE = "–"
_MAX_STEPS, _MAX_LINES, _MAX_MODULES = 120, 12, 30
_PHASE_TEXTS = {
    "data": "waiting for data",
    "transfer": "copies to the device",
    "forward": "forward pass",
    "loss": "loss",
    "backward": "backward pass",
    "optimizer": "optimizer",
    "evaluation": "evaluation",
    "python": "the rest of the loop",
}
_COLUMNS = {
    "lines": ("line", "phase", "ms per step", "share"),
    "modules": (
        *("module", "forward", "backward", "share"),
        *("kept by forward", "allocated by backward", "freed by backward", "peak memory", "FLOP per byte"),
    ),
    "trials": ("change", "ms per step", "gain", "output differs by", "peak memory"),
    "latencies": ("batch size", "P50", "P95", "P99"),
}


@dataclass
class ProfileView(View):
    """Texts, the seconds of each phase in each step, and the rows of the tables as text."""

    module: ClassVar[str] = "tools/profile/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/profile",)
    height: ClassVar[int] = 240

    title: str = "Profile"
    status: str = ""
    headline: str = ""
    tone: str = "note"
    reasons: Sequence[str] = ()
    code: str = ""
    where: str = ""
    phases: Sequence[dict[str, Any]] = ()
    steps: Sequence[Sequence[float]] = ()
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    roofline: dict[str, Any] | None = None
    notes: Sequence[str] = ()
    stoppable: bool = False

    @property
    def progress_text(self) -> str:
        """What is measured now."""
        return self.status

    def state(self) -> dict[str, Any]:
        """Return the state for the browser."""
        names = ("title", "status", "headline", "tone", "reasons", "code", "where", "phases", "steps", "tables")
        values = {name: to_json_value(getattr(self, name)) for name in (*names, "roofline", "notes", "stoppable")}
        tables = {name: self._shown(name) for name in _COLUMNS}
        rows = {name: shown for name, (_, shown) in tables.items() if shown}
        return {**values, "tables": rows, "columns": {name: columns for name, (columns, _) in tables.items()}}

    def _shown(self, name: str) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the columns of a table that have a value in any row, and its rows with these cells."""
        rows, columns = self.tables.get(name, []), _COLUMNS[name]
        kept = [i for i in range(len(columns)) if not rows or any(row["cells"][i] != _NO_VALUE for row in rows)]
        return [columns[i] for i in kept], [{**row, "cells": [row["cells"][i] for i in kept]} for row in rows]

    def html(self) -> str:
        """Return the verdict and the tables as HTML."""
        parts = [html_paragraph(f"{self.title} {self.status}"), html_paragraph(self.headline), html_list(self.reasons)]
        parts += [html_paragraph(text) for text in (self.where, self.code) if text]
        parts.append(html_table([[p["text"], p["milliseconds"], p["percent"]] for p in self.phases], _PHASE_COLUMNS))
        for name in _COLUMNS:
            columns, rows = self._shown(name)
            if rows:
                parts.append(html_table([row["cells"] for row in rows], columns))
        return "".join([*parts, *map(html_paragraph, self.notes)])


_PHASE_COLUMNS = ("phase", "ms per step", "share")


def running_view(status: str) -> ProfileView:
    """Build the view of a profile that is still running."""
    return ProfileView(status=status, stoppable=True)


def build_view(result: TimeProfile) -> ProfileView:
    """Build the view of a result."""
    first = result.advice[0] if result.advice else None
    loop = "your loop" if result.is_user_loop else "a standard loop"
    status = (
        f"{len(result.steps)} steps of {loop} on {result.device} · {milliseconds(result.step_seconds)} per step · "
        f"batch size {result.batch_size} · peak memory {format_bytes(result.peak_bytes)} · "
        f"the hooks add {result.overhead:.1%}"
    )
    return ProfileView(
        status=status,
        headline=result.headline,
        tone="warning" if first else "good",
        reasons=result.reasons,
        code=result.code,
        where=_where_text(first) if first else "",
        phases=_phase_rows(result),
        steps=[[round(1e3 * step.phases[phase], 4) for phase in PHASES] for step in result.steps[-_MAX_STEPS:]],
        tables={
            "lines": [_line_row(item, result) for item in result.lines[:_MAX_LINES]],
            "modules": [_module_row(item, result) for item in result.modules[:_MAX_MODULES] if item.seconds],
            "trials": [_trial_row(trial, first) for trial in result.trials],
            "latencies": [
                {"cells": [f"{item.size}", *map(milliseconds, (item.p50, item.p95, item.p99))]}
                for item in result.latencies
            ],
        },
        roofline=_roofline_state(result),
        notes=result.notes,
    )


def _phase_rows(result: TimeProfile) -> list[dict[str, Any]]:
    """Return a row for each phase that takes time."""
    return [
        {
            "index": i,
            "name": phase,
            "text": _PHASE_TEXTS[phase],
            "milliseconds": milliseconds(result.phases[phase]),
            "percent": f"{result.share(phase):.0%}",
        }
        for i, phase in enumerate(PHASES)
        if result.phases[phase] > 0
    ]


def _where_text(advice: Advice) -> str:
    """Return the user's line of an advice as text."""
    if advice.line is None:
        return ""
    cell = get_cell_number(advice.line.file)
    place = f"cell {cell}" if cell is not None else advice.line.file.rpartition("/")[2]
    return f"{place}, line {advice.line.number}: {advice.line.text.strip()}"


def _line_row(item: LineTime, result: TimeProfile) -> dict[str, Any]:
    share = item.seconds / result.step_seconds
    cells = [f"{item.line.number}: {item.text.strip()}", item.phase, milliseconds(item.seconds), f"{share:.0%}"]
    return {"cells": cells, "part": share}


def _module_row(item: ModuleCost, result: TimeProfile) -> dict[str, Any]:
    share = item.seconds / result.step_seconds
    cells = [
        f"{item.path or 'model'} ({item.kind})",
        milliseconds(item.forward),
        milliseconds(item.backward),
        f"{share:.0%}",
        *map(format_bytes, (item.kept_bytes, item.backward_bytes, item.freed_bytes, item.peak_bytes)),
        f"{item.intensity:.1f}" if item.flops else _NO_VALUE,
    ]
    return {"cells": cells, "part": share}


def _trial_row(trial: SpeedTrial, first: Advice | None) -> dict[str, Any]:
    """Return the row of a change; the recommended one shows its code."""
    is_recommended = first is not None and bool(trial.code) and trial.code == first.code
    mark = "recommended" if is_recommended else "present" if trial.is_present else ""
    if trial.failure:
        cells = [f"{trial.group}: {trial.name}", trial.failure, _NO_VALUE, _NO_VALUE, _NO_VALUE]
    else:
        difference = _NO_VALUE if trial.difference is None else f"{trial.difference:.1g}"
        peak = format_bytes(trial.peak_bytes) if trial.peak_bytes else _NO_VALUE
        cells = [f"{trial.group}: {trial.name}", milliseconds(trial.seconds), f"{trial.gain:.2f}×", difference, peak]
    return {"cells": cells, "mark": mark, "code": trial.code if is_recommended else ""}


def _roofline_state(result: TimeProfile) -> dict[str, Any] | None:
    """Return the ceilings, and intensity and rate of the forward pass of each module that computes."""
    if result.roofline is None:
        return None
    points = [
        {"name": item.path or "model", "intensity": item.intensity, "rate": item.flops / item.forward}
        for item in result.modules[:_MAX_MODULES]
        if item.flops and item.forward > 0
    ]
    ceilings = {"flops": result.roofline.flops_per_second, "bytes": result.roofline.bytes_per_second}
    return {**ceilings, "points": points} if points else None
