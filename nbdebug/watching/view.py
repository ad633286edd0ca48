"""View of every layer over a run, and the record as bytes for the browser."""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.formatting import format_value, html_paragraph, html_table, to_json_value
from nbdebug.records import SIGNAL_LABELS, Record, RecordedModule, signal_label
from nbdebug.records.table import FloatArray, HistogramTable, StepTable
from nbdebug.tensors.histogram_bins import BIN_COUNT
from nbdebug.views.line_chart import sparkline, thin_indices
from nbdebug.views.page import View

_TABLES = ("run", "evaluations", "layers")
_MAX_READ_ATTEMPTS = 50
_MANTISSA_MASK, _SHORT_MANTISSA_MASK = np.uint32(0xFFFFF000), np.uint32(0xFFFF0000)  # errors up to 0.02% and 0.4%
_HISTOGRAM_LEVELS = 25
_MAX_RUN_ROWS, _MAX_LAYER_ROWS, _MAX_HISTOGRAMS = 1_600, 160, 96
# Below this share, as for models of hundreds of layers, the layers are those of two steps, histograms are those of the
# last one, numbers have fewer digits, and these columns, which only the detail of a layer shows, are left out. The list
# shows the means of constant weights.
_MIN_SHARE, _DETAIL_COLUMNS = 0.01, ("mean", "std", "absmax")
_SHORTENED = (
    "this page leaves out means and spreads of the layers, their numbers between the first and the last recorded step, "
    "and their histograms before the last"
)
ReadResult = TypeVar("ReadResult")
_TablePart = dict[str, Any]
_MAX_PAGE_BYTES, _MAX_LIVE_BYTES = 54_000, 1_200_000  # a page of at most 120 kB
_MAX_PLAIN_LAYERS, _MAX_EVENTS = 60, 200
_SEVERITY_RANKS = {"error": 0, "warning": 1, "note": 2}
_SHOWN_EVENTS = ("finding", "nonfinite", "stopped", "note", "captured")
_SUMMARY_CURVES = (
    "loss",
    "eval_loss",
    "sample_train_loss",
    "sample_val_loss",
    "sample_train_score",
    "sample_val_score",
)


@dataclass
class _RecordSender:
    """Tracks which rows of a record were sent, so that each is sent once with its index."""

    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)

    def changes(self, record: Record) -> tuple[list[_TablePart], bytes]:
        """Return all changes since the last call."""
        parts_with_data = [self._rows(name, getattr(record, name)) for name in _TABLES] + [self._shapes(record.shapes)]
        parts = [(part, data) for part, data in parts_with_data if part["rows"]]
        return [part for part, _ in parts], b"".join(data for _, data in parts)

    def row_counts(self, record: Record) -> dict[str, int]:
        """Return the number of sent and pending rows of each table."""
        return {name: self._count(name, getattr(record, name)) for name in (*_TABLES, "shapes")}

    def _rows(self, name: str, table: StepTable) -> tuple[_TablePart, bytes]:
        start, first = self._begin(name, table), self.counts.get(name, 0)
        part: _TablePart = {"name": name, "first": first, "rows": table.rows - start, "width": len(table.columns)}
        if part["rows"] and self.widths.get(name) != len(table.columns):
            self.widths[name], part["columns"] = len(table.columns), list(table.columns)
        self._sent(name, table.stride, table.rows, part["rows"])
        return part, _pack_floats(table.steps[start:], table.values[start:])

    def _shapes(self, shapes: HistogramTable) -> tuple[_TablePart, bytes]:
        start, first = self._begin("shapes", shapes), self.counts.get("shapes", 0)
        rows = shapes.rows[start:]
        self._sent("shapes", shapes.stride, len(shapes.rows), len(rows))
        sizes = [len(row) for row in rows]
        return {"name": "shapes", "first": first, "rows": len(rows), "steps": shapes.steps[start:], "sizes": sizes}, (
            b"".join(rows)
        )

    def _begin(self, name: str, source: StepTable | HistogramTable) -> int:
        """Return the first unsent row; after the table was thinned, its index is halved."""
        stride, rows = self.ends.get(name, (source.stride, 0))
        while stride < source.stride:
            stride, rows = 2 * stride, (rows + 1) // 2
        return rows

    def _sent(self, name: str, stride: int, rows: int, more: int) -> None:
        self.ends[name] = stride, rows
        self.counts[name] = self.counts.get(name, 0) + more

    def _count(self, name: str, source: StepTable | HistogramTable) -> int:
        rows = len(source.rows) if isinstance(source, HistogramTable) else source.rows
        return self.counts.get(name, 0) + rows - self._begin(name, source)


def _pack_record(record: Record, head: dict[str, Any], max_bytes: int, level: int) -> tuple[bytes, bool]:
    """Return ``head`` and all tables in at most about ``max_bytes`` bytes, with thinned rows and rounded numbers.

    Also return whether parts were left out.
    """
    kept_share = min(1.0, 25 * max_bytes / max(1, len(record.histogram_names) * BIN_COUNT * _MAX_HISTOGRAMS))
    while True:
        data = _packed(record, head, kept_share, level)
        if len(data) <= max_bytes or kept_share < _MIN_SHARE:
            return data, kept_share < _MIN_SHARE
        kept_share *= max(0.3, min(0.9, 0.95 * max_bytes / len(data)))


def _packed(record: Record, head: dict[str, Any], kept_share: float, level: int) -> bytes:
    parts = [
        _run(record.run, "run", kept_share),
        _run(record.evaluations, "evaluations", kept_share),
        _layers(record, kept_share),
    ]
    max_histograms = max(2, int(_MAX_HISTOGRAMS * kept_share)) if kept_share >= _MIN_SHARE else 1
    parts.append(_read_consistently(lambda: _histograms(record.shapes, max_histograms)))
    text = json.dumps(
        {**head, "parts": [table_part for table_part, _ in parts]}, allow_nan=False, separators=(",", ":")
    ).encode()
    body = b"".join(data for _, data in parts)
    return zlib.compress(np.uint32(len(text)).tobytes() + text + body, level if kept_share >= _MIN_SHARE else 9)


def _run(table: StepTable, name: str, kept_share: float) -> tuple[_TablePart, bytes]:
    """Pack a table, keeping the extremes of its first column."""
    steps, values, columns = _read_consistently(lambda: _copy_table(table))
    first = values[:, 0].tolist() if values.shape[1] else []
    indices = np.array(thin_indices(first, max(8, int(_MAX_RUN_ROWS * kept_share**0.3))), int)
    return _table(name, steps[indices], values[indices], columns)


def _layers(record: Record, kept_share: float) -> tuple[_TablePart, bytes]:
    steps, values, columns = _read_consistently(lambda: _copy_table(record.layers))
    if kept_share < _MIN_SHARE:
        signals = [name.partition("|")[0] for name in columns]
        shown = [i for i, name in enumerate(signals) if name == "weight.mean" or not name.endswith(_DETAIL_COLUMNS)]
        values, columns = values[:, shown], [columns[i] for i in shown]
    indices = _even_indices(len(steps), max(2, int(_MAX_LAYER_ROWS * kept_share)))
    mask = _MANTISSA_MASK if kept_share >= _MIN_SHARE else _SHORT_MANTISSA_MASK
    part, data = _table("layers", steps[indices], values[indices], [], mask)
    return {**part, "grid": _factor_names(columns), "width": len(columns)}, data


def _factor_names(names: Sequence[str]) -> dict[str, list[Any]]:
    """Return names of columns or histograms, ``signal|place``, as indices into the signals and the places.

    A model of 400 layers has 9,000 columns: their names would take a third of the page, the indices compress to 1 kB.
    The index of a place is stored as the difference from that of the previous column.
    """
    signals: dict[str, int] = {}
    places: dict[str, int] = {}
    pairs = [name.partition("|")[::2] for name in names]
    signal_indices = [signals.setdefault(signal, len(signals)) for signal, _ in pairs]
    place_indices = [places.setdefault(place, len(places)) for _, place in pairs]
    differences = [index - before for before, index in zip([0, *place_indices], place_indices, strict=False)]
    return {"signals": list(signals), "places": list(places), "signal": signal_indices, "place": differences}


def _table(
    name: str, steps: NDArray[np.int64], values: FloatArray, columns: list[str], mask: np.uint32 = _MANTISSA_MASK
) -> tuple[_TablePart, bytes]:
    rounding = (~mask + np.uint32(1)) >> np.uint32(1)
    short = (np.ascontiguousarray(values).view(np.uint32) + rounding) & mask if values.size else values
    part = {"name": name, "columns": columns, "rows": len(steps), "width": len(columns)}
    return part, _pack_floats(steps, short.view(np.float32))


def _copy_table(table: StepTable) -> tuple[NDArray[np.int64], FloatArray, list[str]]:
    """Return a consistent copy of steps, values and columns; raise ValueError if the table was being written."""
    stride = table.stride
    steps, values, columns = table.steps.copy(), table.values.copy(), list(table.columns)
    if table.stride != stride or values.shape[1] != len(columns):
        raise ValueError("the table is being written")
    rows = min(len(steps), len(values))
    return steps[:rows], values[:rows], columns


def _histograms(shapes: HistogramTable, max_rows: int) -> tuple[_TablePart, bytes]:
    """Pack histograms in few levels, steps last, which compresses best; a nonempty bin stays nonempty."""
    indices = _even_indices(len(shapes.rows), max_rows)
    rows = [_quantize(shapes.row(i)) for i in indices]
    part = {"name": "shapes", "rows": len(indices), "steps": [shapes.steps[i] for i in indices]}
    return part, np.moveaxis(np.stack(rows), 0, -1).tobytes() if rows else b""


def _quantize(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Quantize bytes to ``HISTOGRAM_LEVELS`` levels of their square root, which separates small values."""
    level_by_byte = np.rint((_HISTOGRAM_LEVELS - 1) * np.sqrt(np.arange(256) / 255)).astype(np.uint8)
    level_by_byte[1:] = np.maximum(level_by_byte[1:], 1)
    return np.asarray(level_by_byte[values])


def _even_indices(count: int, max_count: int) -> list[int]:
    """Return at most ``max_count`` evenly spaced indices, including both ends; a single one is the last."""
    return sorted(set(np.linspace(count - 1, 0, min(count, max_count)).round().astype(int).tolist())) if count else []


def _pack_floats(steps: NDArray[np.int64], values: FloatArray) -> bytes:
    """Pack steps as float64, then values as float32: all first bytes, column by column, then all second ones.

    A column changes little from step to step, so this compresses best.
    """
    value_bytes = np.ascontiguousarray(values.T, np.float32).view(np.uint8).reshape(-1, 4)
    return steps.astype(np.float64).tobytes() + value_bytes.T.tobytes()


def _read_consistently(read: Callable[[], ReadResult]) -> ReadResult:
    """Call ``read``, again if another thread thinned or widened the record meanwhile."""
    for _ in range(_MAX_READ_ATTEMPTS):
        try:
            return read()
        except (IndexError, ValueError):
            time.sleep(0.001)  # let the writing thread finish
    return read()


@dataclass
class LayersView(View):
    """One row per layer, worst first, under the curves of the run; a slider selects the step.

    ``record`` is read whenever the view is sent, and may grow meanwhile. ``findings`` are those of a report as
    dictionaries. With ``controls`` a live view offers pause, stop and a change of the learning rate; ``answer``
    acknowledges a click.
    """

    module: ClassVar[str] = "watching/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("watching",)
    height: ClassVar[int] = 640

    record: Record = field(default_factory=Record)
    findings: Sequence[Mapping[str, Any]] = ()
    title: str = "Training"
    status: str = ""
    controls: bool = False
    acknowledged: dict[str, Any] = field(default_factory=lambda: {"clicks": 0, "paused": False, "factor": 1.0})

    def __post_init__(self) -> None:
        self._sender = _RecordSender()
        self._told: dict[str, Any] = {}

    @property
    def progress_text(self) -> str:
        """The last recorded step."""
        steps = self.record.run.steps
        return f"step {int(steps[-1]) if len(steps) else 0:,}"

    def answer(self, click: Mapping[str, Any]) -> None:
        """Acknowledge a click, and store its effect."""
        kind, factor = click["kind"], float(click.get("factor", 1.0))
        paused = self.acknowledged["paused"] if kind == "rate" else kind == "pause"
        self.acknowledged = {
            "clicks": self.acknowledged["clicks"] + 1,
            "paused": paused,
            "factor": self.acknowledged["factor"] * factor,
        }

    def head(self) -> dict[str, Any]:
        """Return what may change with every message."""
        return {"title": self.title, "status": self.status, "heard": self.acknowledged}

    def changes(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return new rows, and other parts that have changed."""
        parts, data = self._sender.changes(self.record)
        record, sent = self.record, self._told
        sources = {
            "drawn": list(record.histogram_names),
            "layers": list(record.modules),
            "findings": list(self.findings),
        }
        self._told = {**sources, "events": len(record.events), "model": record.about.get("model")}
        changed = [name for name, value in self._told.items() if name not in sent or sent[name] != value]
        texts = self._words() if changed else {}
        return {"head": self.head(), "parts": parts, "words": {name: texts[name] for name in changed}}, [data]

    def state(self) -> dict[str, Any]:
        """Return the whole state, thinned to fit a page."""
        return self._whole(_MAX_PAGE_BYTES)

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state for a live page, with the number of rows that it contains."""
        return {**self._whole(_MAX_LIVE_BYTES, level=1), "held": self._sender.row_counts(self.record)}

    def _whole(self, max_bytes: int, level: int = 6) -> dict[str, Any]:
        words = {**self._words(), "drawn": _factor_names(self.record.histogram_names)}
        packed, is_shortened = _pack_record(self.record, {"words": words}, max_bytes, level)
        head = {**self.head(), **({"status": f"{self.status}; {_SHORTENED}"} if is_shortened else {})}
        options = {"controls": self.controls, "names": SIGNAL_LABELS, "run": self.record.about.get("run", "")}
        return {**head, **options, "packed": b64encode(packed).decode()}

    def _words(self) -> dict[str, Any]:
        """Return the parts that are not numeric and rarely change."""
        events = [item for item in self.record.events if item.kind in _SHOWN_EVENTS][-_MAX_EVENTS:]
        return {
            "model": to_json_value(str(self.record.about.get("model", ""))),
            "drawn": list(self.record.histogram_names),
            "layers": [[item.name, item.kind, list(item.parameters), item.seen, item.trains] for item in self.layers()],
            "findings": [_finding_mark(item) for item in self.findings],
            "events": [[item.step, item.kind, to_json_value(item.text)] for item in events],
        }

    def layers(self) -> list[RecordedModule]:
        """Return the layers of the record, and those known only from recorded signals."""
        recorded = list(self.record.modules)
        names, owned_parameters = (
            {layer.name for layer in recorded},
            {name for layer in recorded for name in layer.parameters},
        )
        parameters_by_module: dict[str, list[str]] = {}
        for family, _, signal in (name.partition("|") for name in self.record.histogram_names):
            module_path = signal if family == "activation" else signal.rpartition(".")[0]
            if module_path not in names and signal not in owned_parameters:
                parameters_by_module.setdefault(module_path, []).extend([signal] * (family == "weight"))
        return recorded + [
            RecordedModule(module_path, "", tuple(parameters), seen=True)
            for module_path, parameters in parameters_by_module.items()
        ]

    def html(self) -> str:
        """Return a row per layer with its last numbers, and a row per curve with its ends."""
        head = ("layer", "kind", "weight norm", "gradient norm", "update / weight", "dead", "saturated", "findings")
        rows = sorted(self.layers(), key=lambda item: min([3, *self._ranks(item)]))
        cells = [self._cells(item) for item in rows[:_MAX_PLAIN_LAYERS]]
        more = f"… and {len(rows) - _MAX_PLAIN_LAYERS} more layers" if len(rows) > _MAX_PLAIN_LAYERS else ""
        curves = [row for name in _SUMMARY_CURVES if (row := self._curve(name))]
        texts = (
            html_paragraph(self.title)
            + html_paragraph(self.status)
            + html_table(curves, ("", "first", "last", "lowest", "shape"))
        )
        return (
            texts
            + html_table(cells, head)
            + html_paragraph(more)
            + "".join(html_paragraph(_finding_line(item)) for item in self.findings)
        )

    def _cells(self, layer: RecordedModule) -> list[str]:
        first = layer.parameters[0] if layer.parameters else ""
        signals = [("weight.norm", first), ("gradient.norm", first), ("update.ratio", first)]
        signals += [("activation.dead", layer.name), ("activation.saturated", layer.name)]
        codes = [str(finding["code"]) for finding in self.findings if _concerns_layer(finding, layer)]
        return [layer.name, layer.kind, *(self._last(signal, name) for signal, name in signals), ", ".join(codes)]

    def _last(self, signal: str, name: str) -> str:
        values = self.record.series(signal, name)[1] if name else np.zeros(0)
        return format_value(float(values[-1])) if len(values) else ""

    def _curve(self, name: str) -> list[str]:
        values = self.record.series(name)[1]
        if not len(values):
            return []
        finite = values[np.isfinite(values)]
        lowest = format_value(float(finite.min())) if len(finite) else ""
        shape = sparkline(values[:: -(-len(values) // 200)].tolist())
        return [signal_label(name), format_value(float(values[0])), format_value(float(values[-1])), lowest, shape]

    def _ranks(self, layer: RecordedModule) -> list[int]:
        return [_SEVERITY_RANKS[finding["severity"]] for finding in self.findings if _concerns_layer(finding, layer)]


def _finding_mark(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding as a mark at a step and a dot at a layer."""
    where = finding.get("where") or {}
    texts = {name: to_json_value(finding[name]) for name in ("code", "name", "severity", "message")}
    return {**texts, "step": where.get("step"), "place": to_json_value(where.get("parameter") or where.get("module"))}


def _concerns_layer(finding: Mapping[str, Any], layer: RecordedModule) -> bool:
    """Return whether a finding points to a layer, its parameters, or a module that contains it."""
    where = finding.get("where") or {}
    if where.get("parameter"):
        return where["parameter"] in layer.parameters
    module = where.get("module")
    return bool(module) and f"{layer.name}.".startswith(f"{module}.")


def _finding_line(finding: Mapping[str, Any]) -> str:
    return f"{finding['severity']} {finding['code']} {finding['name']}: {finding['message']}"
