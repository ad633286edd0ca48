"""Every layer of a model over a run: what it holds, what reaches it, and how it moves."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nbdebug.record import NAMES, Layer, Record, called
from nbdebug.views.base import View
from nbdebug.views.markup import paragraph, table
from nbdebug.views.plain import plain, short
from nbdebug.views.series import sketch
from nbdebug.views.wire import Sender, whole

PAGE_BYTES, PLACES_OF_A_PAGE, LIVE_BYTES = 100_000, 240, 1_200_000
MOST_PLAIN_ROWS, MOST_EVENTS = 60, 200
RANKS = {"error": 0, "warning": 1, "note": 2}
SHOWN_EVENTS = ("finding", "nonfinite", "stopped", "note")
SUMMARY = ("loss", "eval_loss", "sample_train_loss", "sample_val_loss", "sample_train_score", "sample_val_score")


@dataclass
class Layers(View):
    """A row a layer, worst first, under the curves of the run; a slider sets all of it to any step.

    ``record`` is read whenever the view is sent and may grow meanwhile. ``findings`` are those of a report as
    dictionaries. With ``controls`` a live view offers pause, stop and a change of the rate; ``answer`` tells it that
    a click was heard.
    """

    module: ClassVar[str] = "layers.js"
    height: ClassVar[int] = 640

    record: Record = field(default_factory=Record)
    findings: Sequence[Mapping[str, Any]] = ()
    title: str = "Training"
    status: str = ""
    controls: bool = False
    heard: dict[str, Any] = field(default_factory=lambda: {"clicks": 0, "paused": False, "factor": 1.0})

    def __post_init__(self) -> None:
        """Begins before the first row."""
        self._sender = Sender()
        self._told: dict[str, Any] = {}

    def answer(self, click: Mapping[str, Any]) -> None:
        """Notes that a click was heard, and what holds since."""
        kind, factor = click["kind"], float(click.get("factor", 1.0))
        paused = self.heard["paused"] if kind == "rate" else kind == "pause"
        self.heard = {"clicks": self.heard["clicks"] + 1, "paused": paused, "factor": self.heard["factor"] * factor}

    def head(self) -> dict[str, Any]:
        """What may change with every message."""
        return {"title": self.title, "status": self.status, "heard": self.heard}

    def news(self) -> tuple[dict[str, Any], list[bytes]]:
        """Rows that are new, and of the other parts those that changed."""
        parts, data = self._sender.news(self.record)
        record, told = self.record, self._told
        sources = {"drawn": list(record.drawn), "layers": list(record.modules), "findings": list(self.findings)}
        self._told = {**sources, "events": len(record.events), "model": record.about.get("model")}
        stale = [name for name, value in self._told.items() if name not in told or told[name] != value]
        words = self._words() if stale else {}
        return {"head": self.head(), "parts": parts, "words": {name: words[name] for name in stale}}, [data]

    def state(self) -> dict[str, Any]:
        """All of it, thinned to what a page can hold."""
        return self._whole(PAGE_BYTES * max(PLACES_OF_A_PAGE, len(self.record.drawn)) // PLACES_OF_A_PAGE)

    def snapshot(self) -> dict[str, Any]:
        """All of it for a page that is live, with the number of rows that it holds."""
        return {**self._whole(LIVE_BYTES, level=1), "held": self._sender.held(self.record)}

    def _whole(self, most: int, level: int = 6) -> dict[str, Any]:
        packed = whole(self.record, {"words": self._words()}, most, level)
        told = {"controls": self.controls, "names": NAMES, "run": self.record.about.get("run", "")}
        return {**self.head(), **told, "packed": b64encode(packed).decode()}

    def _words(self) -> dict[str, Any]:
        """The parts that are no numbers, and seldom change."""
        shown = [one for one in self.record.events if one.kind in SHOWN_EVENTS][-MOST_EVENTS:]
        return {
            "model": plain(str(self.record.about.get("model", ""))),
            "drawn": list(self.record.drawn),
            "layers": [[one.name, one.kind, list(one.parameters), one.seen, one.trains] for one in self.layers()],
            "findings": [_brief(one) for one in self.findings],
            "events": [[one.step, one.kind, plain(one.text)] for one in shown],
        }

    def layers(self) -> list[Layer]:
        """The layers of the record, and those that only a drawn place tells of."""
        known = list(self.record.modules)
        names, owned = {one.name for one in known}, {name for one in known for name in one.parameters}
        found: dict[str, list[str]] = {}
        for family, _, place in (name.partition("|") for name in self.record.drawn):
            home = place if family == "activation" else place.rpartition(".")[0]
            if home not in names and place not in owned:
                found.setdefault(home, []).extend([place] * (family == "weight"))
        return known + [Layer(home, "", tuple(places), seen=True) for home, places in found.items()]

    def html(self) -> str:
        """A row a layer with its last numbers, and a row a curve with its ends."""
        head = ("layer", "kind", "weight norm", "gradient norm", "update / weight", "dead", "saturated", "findings")
        rows = sorted(self.layers(), key=lambda one: min([3, *self._ranks(one)]))
        cells = [self._cells(one) for one in rows[:MOST_PLAIN_ROWS]]
        more = f"… and {len(rows) - MOST_PLAIN_ROWS} more layers" if len(rows) > MOST_PLAIN_ROWS else ""
        curves = [row for name in SUMMARY if (row := self._curve(name))]
        texts = paragraph(self.title) + paragraph(self.status) + table(curves, ("", "first", "last", "lowest", "shape"))
        return texts + table(cells, head) + paragraph(more) + "".join(paragraph(_line(one)) for one in self.findings)

    def _cells(self, layer: Layer) -> list[str]:
        first = layer.parameters[0] if layer.parameters else ""
        places = [("weight.norm", first), ("gradient.norm", first), ("update.ratio", first)]
        places += [("activation.dead", layer.name), ("activation.saturated", layer.name)]
        codes = [str(one["code"]) for one in self.findings if _concerns(one, layer)]
        return [layer.name, layer.kind, *(self._last(signal, place) for signal, place in places), ", ".join(codes)]

    def _last(self, signal: str, place: str) -> str:
        values = self.record.series(signal, place)[1] if place else np.zeros(0)
        return short(float(values[-1])) if len(values) else ""

    def _curve(self, name: str) -> list[str]:
        values = self.record.series(name)[1]
        if not len(values):
            return []
        finite = values[np.isfinite(values)]
        lowest = short(float(finite.min())) if len(finite) else ""
        shape = sketch(values[:: -(-len(values) // 200)].tolist())
        return [called(name), short(float(values[0])), short(float(values[-1])), lowest, shape]

    def _ranks(self, layer: Layer) -> list[int]:
        return [RANKS[one["severity"]] for one in self.findings if _concerns(one, layer)]


def _brief(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A finding as a mark at a step and a dot at a layer."""
    where = finding.get("where") or {}
    texts = {name: plain(finding[name]) for name in ("code", "name", "severity", "message")}
    return {**texts, "step": where.get("step"), "place": plain(where.get("parameter") or where.get("module"))}


def _concerns(finding: Mapping[str, Any], layer: Layer) -> bool:
    """Whether a finding points at a layer, its parameters, or what it lies in."""
    where = finding.get("where") or {}
    if where.get("parameter"):
        return where["parameter"] in layer.parameters
    module = where.get("module")
    return bool(module) and f"{layer.name}.".startswith(f"{module}.")


def _line(finding: Mapping[str, Any]) -> str:
    return f"{finding['severity']} {finding['code']} {finding['name']}: {finding['message']}"
