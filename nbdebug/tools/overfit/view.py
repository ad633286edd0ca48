"""View of the overfit test: the verdict, the loss of each attempt, and each example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, round_number, to_json_value
from nbdebug.views.images import png_data_uri
from nbdebug.views.line_chart import as_float, line_data, sparkline
from nbdebug.views.page import View

_MAX_EXAMPLES = 64
_MAX_POINTS = 1_000
_MAX_IMAGE_BYTES = 48_000
_MAX_FRAME_VALUES = 12_000
_EXAMPLE_COLUMNS = ("example", "target", "prediction")


@dataclass
class ExampleCard:
    """An example of the batch.

    ``target`` is a class index if the view is ``exact``, else a number or a short text. ``image`` is a uint8 array,
    (H, W) or (H, W, 3); ``name`` is a label, such as an index or the first words of a text.
    """

    target: float | str
    name: str = ""
    image: Any = None


@dataclass
class OverfitView(View):
    """The overfit test, during the test and afterwards.

    ``attempts`` names one loss curve each: "your optimizer", "Adam, lr 0.001". A row, in ``rows`` or passed to
    ``append``, is a recorded step:
    ``{"attempt": 0, "step": 3, "loss": 0.5, "score": [...], "prediction": [...]}``,
    where ``score`` and ``prediction`` have a number for each example, or both are omitted. ``quantity`` names the
    score: the probability of the target, or an error. With ``exact``, predictions are class indices, displayed by their
    ``class_names`` and marked as correct or wrong, and scores are in 0..1.
    ``verdict`` is "pass", "fail", "cannot tell", or "" during the test.
    """

    module: ClassVar[str] = "tools/overfit/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/overfit",)
    height: ClassVar[int] = 300

    title: str = "Tiny-batch overfit test"
    attempts: Sequence[str] = ("loss",)
    examples: Sequence[ExampleCard] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    floor: float | None = None
    verdict: str = ""
    headline: str = ""
    reasons: Sequence[str] = ()
    ruled_out: Sequence[str] = ()
    quantity: str = "p(target)"
    exact: bool = True
    class_names: Sequence[str] | None = None
    status: str = ""
    log: bool = False
    stoppable: bool = False
    _stored_rows: list[Mapping[str, Any]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Copy the initial rows."""
        self._stored_rows = list(self.rows)

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Append a recorded step."""
        self._stored_rows.append(row)
        self.count += 1
        values = {name: as_float(row[name]) for name in ("attempt", "step", "loss") if name in row}
        for name in ("score", "prediction"):
            values |= {f"{name} {i}": as_float(value) for i, value in enumerate(row.get(name, ())[:_MAX_EXAMPLES])}
        return values

    def head(self) -> dict[str, Any]:
        """Return the fields that may change between two rows."""
        has_floor = self.floor is not None and isfinite(self.floor)
        limits = [{"at": to_json_value(self.floor), "text": "floor"}] if has_floor else []
        texts = {name: to_json_value(getattr(self, name)) for name in ("status", "verdict", "headline")}
        lists = {name: to_json_value(list(getattr(self, name))) for name in ("reasons", "ruled_out")}
        return {**texts, **lists, "limits": limits, "marks": []}

    def state(self) -> dict[str, Any]:
        """Return curves, examples and recorded steps, thinned to fit a page."""
        labels = {
            "title": to_json_value(self.title),
            "x_label": "step",
            "y_label": "loss",
            "quantity": to_json_value(self.quantity),
        }
        switches = {"log": self.log, "log_x": False, "exact": self.exact, "stoppable": self.stoppable}
        return {
            **labels,
            **switches,
            **self.head(),
            "class_names": None
            if self.class_names is None
            else [to_json_value(str(name)) for name in self.class_names],
            "examples": [self._example(example) for example in self.examples[:_MAX_EXAMPLES]],
            "lines": [line_data(name, *self._losses(index), _MAX_POINTS) for index, name in enumerate(self.attempts)],
            "frames": [frame for index in range(len(self.attempts)) for frame in self._frames(index)],
        }

    def html(self) -> str:
        """Return the verdict, and a row for each attempt and each example."""
        verdict = html_paragraph(f"{self.verdict or 'running'}: {self.headline} {self.status}")
        reasons = html_list([*self.reasons, *(f"Ruled out: {cause}" for cause in self.ruled_out)])
        attempts = html_table(self._attempt_row(index) for index in range(len(self.attempts)))
        rows = [self._example_row(index) for index in range(min(len(self.examples), _MAX_EXAMPLES))]
        return (
            html_paragraph(self.title)
            + verdict
            + reasons
            + attempts
            + html_table(rows, (*_EXAMPLE_COLUMNS, self.quantity))
        )

    def _rows_of(self, attempt: int) -> list[Mapping[str, Any]]:
        return [row for row in self._stored_rows if row.get("attempt", 0) == attempt]

    def _losses(self, attempt: int) -> tuple[list[float], list[float]]:
        rows = [row for row in self._rows_of(attempt) if "loss" in row]
        return [float(row["step"]) for row in rows], [as_float(row["loss"]) for row in rows]

    def _frames(self, attempt: int) -> list[dict[str, Any]]:
        rows = [row for row in self._rows_of(attempt) if "score" in row]
        values_per_frame = max(1, 2 * len(self.examples[:_MAX_EXAMPLES]) * len(self.attempts))
        max_frames = max(8, min(120, _MAX_FRAME_VALUES // values_per_frame))
        return [_frame(rows[index], attempt) for index in _evenly_spaced(len(rows), max_frames)]

    def _example(self, example: ExampleCard) -> dict[str, Any]:
        image = (
            None
            if example.image is None
            else png_data_uri(example.image, _MAX_IMAGE_BYTES // min(len(self.examples), 64))
        )
        texts = {"name": to_json_value(example.name), "called": to_json_value(self._class_or_number(example.target))}
        return {**texts, "target": to_json_value(example.target), "image": image}

    def _attempt_row(self, attempt: int) -> list[str]:
        _, losses = self._losses(attempt)
        last = format_value(losses[-1]) if losses else "not run"
        return [str(self.attempts[attempt]), f"{len(losses)} steps", f"last loss {last}", sparkline(losses)]

    def _example_row(self, index: int) -> list[str]:
        last: Mapping[str, Any] = next((row for row in reversed(self._stored_rows) if "score" in row), {})
        score, prediction = ((*last.get(name, ()), *[None] * (index + 1))[index] for name in ("score", "prediction"))
        example = self.examples[index]
        return [
            example.name,
            self._class_or_number(example.target),
            self._class_or_number(prediction),
            format_value(score),
        ]

    def _class_or_number(self, value: Any) -> str:
        is_class = self.exact and self.class_names is not None and isinstance(value, (int, float)) and isfinite(value)
        return str(self.class_names[int(value)]) if is_class and self.class_names else format_value(value)


def _frame(row: Mapping[str, Any], attempt: int) -> dict[str, Any]:
    lists = {
        name: [
            None if value is None else round_number(as_float(value), 3) for value in row.get(name, ())[:_MAX_EXAMPLES]
        ]
        for name in ("score", "prediction")
    }
    return {"attempt": attempt, "step": round_number(float(row["step"])), **lists}


def _evenly_spaced(count: int, limit: int) -> list[int]:
    """Return at most ``limit`` indices below ``count``, including both ends."""
    return list(range(count)) if count <= limit else [round(i * (count - 1) / (limit - 1)) for i in range(limit)]
