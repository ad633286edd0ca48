"""The tiny-batch test: the verdict, the loss of each attempt, and what became of every example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.picture import data_address
from nbdebug.views.plain import plain, rounded, short
from nbdebug.views.series import line, number, sketch

MOST_EXAMPLES = 64
MOST_POINTS = 1_000
BYTES_OF_IMAGES = 48_000
NUMBERS_OF_FRAMES = 12_000
COLUMNS = ("example", "target", "prediction")


@dataclass
class Example:
    """One example of the batch.

    ``target`` is a class index where the view is ``exact``, else a number or a short text. ``image`` is a uint8
    array, (H, W) or (H, W, 3); ``name`` is what is said beside it, such as an index or the first words of a text.
    """

    target: float | str
    name: str = ""
    image: Any = None


@dataclass
class OverfitView(View):
    """The tiny-batch overfit test, while it runs and afterwards.

    ``attempts`` names one loss curve each: "your optimizer", "Adam, lr 0.001". A row, in ``rows`` or given to
    ``append``, is one recorded step:
    ``{"attempt": 0, "step": 3, "loss": 0.5, "score": [...], "prediction": [...]}``,
    where ``score`` and ``prediction`` have a number for each example, or both are left out. ``score`` is what
    ``quantity`` calls it: the probability of the target, or an error. With ``exact``, predictions are class indices,
    shown by their ``class_names`` and marked right or wrong, and scores lie in 0..1.
    ``verdict`` is "pass", "fail", "cannot tell", or "" while it runs.
    """

    module: ClassVar[str] = "overfit.js"
    height: ClassVar[int] = 300

    title: str = "Tiny-batch overfit test"
    attempts: Sequence[str] = ("loss",)
    examples: Sequence[Example] = ()
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
    _kept: list[Mapping[str, Any]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Starts from the rows that there are."""
        self._kept = list(self.rows)

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Takes in one recorded step."""
        self._kept.append(row)
        self.count += 1
        flat = {name: number(row[name]) for name in ("attempt", "step", "loss") if name in row}
        for name in ("score", "prediction"):
            flat |= {f"{name} {i}": number(one) for i, one in enumerate(row.get(name, ())[:MOST_EXAMPLES])}
        return flat

    def head(self) -> dict[str, Any]:
        """What a tool may change between two rows."""
        known = self.floor is not None and isfinite(self.floor)
        limits = [{"at": plain(self.floor), "text": "floor"}] if known else []
        texts = {name: plain(getattr(self, name)) for name in ("status", "verdict", "headline")}
        lists = {name: plain(list(getattr(self, name))) for name in ("reasons", "ruled_out")}
        return {**texts, **lists, "limits": limits, "marks": []}

    def state(self) -> dict[str, Any]:
        """Curves, examples and recorded steps, thinned to what a page can hold."""
        labels = {"title": plain(self.title), "x_label": "step", "y_label": "loss", "quantity": plain(self.quantity)}
        switches = {"log": self.log, "log_x": False, "exact": self.exact, "stoppable": self.stoppable}
        return {
            **labels,
            **switches,
            **self.head(),
            "class_names": None if self.class_names is None else [plain(str(name)) for name in self.class_names],
            "examples": [self._example(one) for one in self.examples[:MOST_EXAMPLES]],
            "lines": [line(name, *self._losses(index), MOST_POINTS) for index, name in enumerate(self.attempts)],
            "frames": [frame for index in range(len(self.attempts)) for frame in self._frames(index)],
        }

    def html(self) -> str:
        """The verdict, a row for each attempt and for each example."""
        verdict = paragraph(f"{self.verdict or 'running'}: {self.headline} {self.status}")
        reasons = listed([*self.reasons, *(f"Ruled out: {one}" for one in self.ruled_out)])
        attempts = table(self._attempt_row(index) for index in range(len(self.attempts)))
        rows = [self._example_row(index) for index in range(min(len(self.examples), MOST_EXAMPLES))]
        return paragraph(self.title) + verdict + reasons + attempts + table(rows, (*COLUMNS, self.quantity))

    def _rows_of(self, attempt: int) -> list[Mapping[str, Any]]:
        return [row for row in self._kept if row.get("attempt", 0) == attempt]

    def _losses(self, attempt: int) -> tuple[list[float], list[float]]:
        rows = [row for row in self._rows_of(attempt) if "loss" in row]
        return [float(row["step"]) for row in rows], [number(row["loss"]) for row in rows]

    def _frames(self, attempt: int) -> list[dict[str, Any]]:
        rows = [row for row in self._rows_of(attempt) if "score" in row]
        each = max(1, 2 * len(self.examples[:MOST_EXAMPLES]) * len(self.attempts))
        most = max(8, min(120, NUMBERS_OF_FRAMES // each))
        return [_frame(rows[i], attempt) for i in _evenly(len(rows), most)]

    def _example(self, one: Example) -> dict[str, Any]:
        image = None if one.image is None else data_address(one.image, BYTES_OF_IMAGES // min(len(self.examples), 64))
        texts = {"name": plain(one.name), "called": plain(self._called(one.target))}
        return {**texts, "target": plain(one.target), "image": image}

    def _attempt_row(self, attempt: int) -> list[str]:
        _, losses = self._losses(attempt)
        last = short(losses[-1]) if losses else "not run"
        return [str(self.attempts[attempt]), f"{len(losses)} steps", f"last loss {last}", sketch(losses)]

    def _example_row(self, index: int) -> list[str]:
        last: Mapping[str, Any] = next((row for row in reversed(self._kept) if "score" in row), {})
        score, prediction = ((*last.get(name, ()), *[None] * (index + 1))[index] for name in ("score", "prediction"))
        one = self.examples[index]
        return [one.name, self._called(one.target), self._called(prediction), short(score)]

    def _called(self, value: Any) -> str:
        known = self.exact and self.class_names is not None and isinstance(value, (int, float)) and isfinite(value)
        return str(self.class_names[int(value)]) if known and self.class_names else short(value)


def _frame(row: Mapping[str, Any], attempt: int) -> dict[str, Any]:
    lists = {
        name: [None if one is None else _digits(number(one)) for one in row.get(name, ())[:MOST_EXAMPLES]]
        for name in ("score", "prediction")
    }
    return {"attempt": attempt, "step": rounded(float(row["step"])), **lists}


def _digits(value: float) -> float | int | None:
    """Three digits are as many as a sparkline shows; whole numbers stay."""
    return rounded(value) if not isfinite(value) or value.is_integer() else float(f"{value:.3g}")


def _evenly(count: int, most: int) -> list[int]:
    """At most ``most`` indices below ``count``, both ends among them."""
    return list(range(count)) if count <= most else [round(i * (count - 1) / (most - 1)) for i in range(most)]
