"""The record of one run: signals by place and step, histograms, and what happened when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.record.bins import COUNT, STATISTICS
from nbdebug.record.table import Numbers, Shapes, Table

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

MOST_LAYER_ROWS, MOST_HISTOGRAMS, MOST_EVENTS = 512, 128, 1000
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """One submodule of the model: its path, kind, and the parameters that it holds itself, its weight first.

    ``seen`` says whether its output was; ``trains`` whether any of its parameters does.
    """

    name: str
    kind: str = ""
    parameters: tuple[str, ...] = ()
    seen: bool = False
    trains: bool = True


@dataclass
class Event:
    """Something that happened at a step: an epoch began, a step was skipped, a finding was made."""

    step: int
    kind: str
    text: str = ""


@dataclass
class Record:
    """What was recorded of a run.

    ``run`` holds a row a step: loss, lr, momentum, gradient_norm, clip_scale, step_seconds, wait_seconds, skipped.
    ``evaluations`` holds what was measured now and then: eval_loss of the user's own validation; sample_train_loss,
    sample_val_loss, sample_train_score, sample_val_score, sample_changed of fixed samples; and what was logged.
    ``layers`` holds ``family.statistic|place``; a row of ``shapes`` has a histogram for each of ``drawn`` so far,
    ``family|place``, all zero where none was seen.
    """

    about: dict[str, Any] = field(default_factory=dict)
    modules: list[Layer] = field(default_factory=list)
    run: Table = field(default_factory=Table)
    evaluations: Table = field(default_factory=Table)
    layers: Table = field(default_factory=lambda: Table(most=MOST_LAYER_ROWS))
    shapes: Shapes = field(default_factory=lambda: Shapes(COUNT, MOST_HISTOGRAMS))
    drawn: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def signals(self) -> list[str]:
        """The names of all signals that have a value."""
        whole = [*self.run.columns, *self.evaluations.columns]
        return [*whole, *dict.fromkeys(name.partition("|")[0] for name in self.layers.columns)]

    def places(self, signal: str) -> list[str]:
        """The places that a signal was measured at; none for one of the whole run."""
        return [place for name in self.layers.columns for kind, _, place in [name.partition("|")] if kind == signal]

    def series(self, signal: str, place: str = "") -> tuple[Steps, Numbers]:
        """Steps and values of a signal; both empty where it was never measured.

        Of the whole run (``"loss"``), or of a place (``"gradient.norm"``, ``"conv1.weight"``).
        """
        if place:
            return self.layers.column(f"{signal}|{place}")
        return (self.run if signal in self.run.columns else self.evaluations).column(signal)

    def histograms(self, family: str, place: str) -> tuple[Steps, NDArray[np.uint8]]:
        """Steps, and for each the bytes of ``bins.packed``: rows × COUNT; empty where none was drawn."""
        name = f"{family}|{place}"
        if name not in self.drawn:
            return np.zeros(0, np.int64), np.zeros((0, COUNT), np.uint8)
        at, shapes = self.drawn.index(name), self.shapes
        found = {step: row for i, step in enumerate(shapes.steps) if at < len(row := shapes.row(i))}
        rows = [row[at] for row in found.values()]
        return np.array(list(found), np.int64), np.array(rows, np.uint8).reshape(-1, COUNT)

    def note(self, step: int, kind: str, text: str) -> None:
        """Keeps that something has happened, up to a thousand times of a kind."""
        if len(self.happened(kind)) < MOST_EVENTS:
            self.events.append(Event(step, kind, text))

    def happened(self, kind: str) -> list[Event]:
        """The events of one kind."""
        return [one for one in self.events if one.kind == kind]

    @property
    def steps(self) -> int:
        """The last step that was recorded."""
        return int(self.run.steps[-1]) if self.run.rows else 0

    def to_frame(self) -> pandas.DataFrame:
        """One row a value: step, signal, place, value."""
        import pandas as pd

        parts = [self._long(table) for table in (self.run, self.evaluations, self.layers)]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _long(self, table: Table) -> pandas.DataFrame:
        import pandas as pd

        rows, columns = np.nonzero(~np.isnan(table.values))
        names = np.array([name.partition("|")[::2] for name in table.columns], object).reshape(-1, 2)
        cells = {"signal": names[columns, 0], "place": names[columns, 1], "value": table.values[rows, columns]}
        return pd.DataFrame({"step": table.steps[rows], **cells})

    def save(self, path: str | Path) -> None:
        """Writes all of it to one file, which ``nbdebug.load`` reads."""
        from nbdebug.record.file import write

        write(self, path)

    def head(self) -> dict[str, Any]:
        """The parts that are no numbers, ready for JSON."""
        return {
            "about": self.about,
            "modules": [asdict(one) for one in self.modules],
            "events": [asdict(one) for one in self.events],
            "drawn": self.drawn,
        }


def layer_columns(drawn: Iterable[str]) -> list[str]:
    """The columns of ``layers`` for places that are drawn, ``family|place``: all statistics of each, in order."""
    pairs = [one.partition("|")[::2] for one in drawn]
    return [f"{family}.{statistic}|{place}" for family, place in pairs for statistic in STATISTICS]
