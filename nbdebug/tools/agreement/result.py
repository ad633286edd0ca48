"""Result of a comparison of two computations as plain data, and its view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nbdebug.finding import format_module
from nbdebug.formatting import format_value
from nbdebug.result import Result
from nbdebug.source.location import SourceLine
from nbdebug.views.table import Column, FoldableTable, TableRow, TextCell

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

Phase = Literal["data", "forward", "buffers", "backward", "update"]
_COLUMNS = (
    Column("module"),
    Column("operations", "number"),
    Column("matched", "number", "Results that the other side has too, within their tolerance."),
    Column("difference ÷ tolerance", "number", "The largest of the module, where both sides have the result."),
)

PHASE_NAMES = {"forward": "forward pass", "buffers": "buffers", "backward": "backward pass", "update": "update"}


@dataclass(frozen=True)
class DivergencePlace:
    """Where one side parts from the other: operation, module and its class, and the user's line."""

    operation: str = ""
    module: str = ""
    kind: str = ""
    line: SourceLine | None = None

    @property
    def name(self) -> str:
        """The operation and the module, in a sentence."""
        if not self.module:
            return self.operation or "the output"
        module = f"{format_module(self.module)}{f' ({self.kind})' if self.kind else ''}"
        return f"{self.operation} in {module}" if self.operation else module

    def __str__(self) -> str:
        """The name, and the line."""
        return f"{self.name}, {self.line.where()}: {self.line.text.strip()}" if self.line is not None else self.name


@dataclass(frozen=True)
class ModuleRow:
    """The results of one module: how many the other side has too, and the largest difference in tolerances."""

    module: str
    operations: int
    matched: int
    ratio: float


@dataclass(frozen=True)
class Agreement(Result):
    """The agreement of two computations within rounding, and the first place at which they part.

    ``phase`` and ``mode`` say in which pass they part. ``first`` and ``second`` are the places on both sides.
    ``difference`` and ``tolerance`` are root mean squares of the tensor in which they part; the tolerance is measured.
    ``causes`` are differences of weights or settings that were seen there.
    """

    agrees: bool
    headline: str
    phase: Phase | None = None
    mode: str = ""
    tensor: str = ""
    first: DivergencePlace = DivergencePlace()
    second: DivergencePlace = DivergencePlace()
    difference: float = 0.0
    tolerance: float = 0.0
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[ModuleRow, ...] = ()
    roundoff: float = 0.0
    checked: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module of the first side at which they part."""
        return self.first.module

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per module of the first side, in the order of execution."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows], columns=["module", "operations", "matched", "ratio"])

    def draw(self, ax: Axes) -> None:
        """Draw the largest difference of each module in units of its tolerance."""
        names = [row.module or "(model)" for row in self.rows]
        ax.bar(range(len(names)), [max(row.ratio, 1e-3) for row in self.rows])
        ax.axhline(1.0, color="black", linewidth=1)
        ax.set(yscale="log", ylabel="difference ÷ tolerance", title="agree" if self.agrees else "differ")
        ax.set_xticks(range(len(names)), names, rotation=90)

    def view(self) -> View:
        """A row for each module below the verdict."""
        return FoldableTable(
            title="Agreement",
            status=", ".join(self.checked),
            columns=_COLUMNS,
            rows=[self._row(row) for row in self.rows],
            notice=(
                " ".join([self.headline, *(f"{cause}." for cause in self.causes)]),
                "good" if self.agrees else "warning",
            ),
            note=". ".join([*(f"{label}: {text}" for label, text in self._details()), *self.notes]),
            noun="modules",
        )

    def _row(self, row: ModuleRow) -> TableRow:
        """Return the row of a module; that at which the sides part has the places as details."""
        is_first = not self.agrees and row.module == self.first.module
        ratio = self._first_difference_cell(row) if is_first else _ratio_cell(row)
        details = self._details() if is_first else ()
        return TableRow(row.module or "(model)", (row.operations, row.matched, ratio), details=details)

    def _first_difference_cell(self, row: ModuleRow) -> TextCell:
        """Return what differs in the module at which the sides part: results of its own, or only what follows them."""
        if self.phase == "forward" and row.matched < row.operations:
            return TextCell(f"first difference: {row.matched} of {row.operations} results match", tone="error")
        ratio = f"{format_value(row.ratio)} in the forward pass; " if row.matched else ""
        return TextCell(f"{ratio}first difference: {PHASE_NAMES.get(self.phase or '', 'data')}", row.ratio, "error")

    def _details(self) -> list[tuple[str, str]]:
        """Return the places and the difference as labelled texts; nothing if both sides agree, or read other data."""
        if self.agrees or self.phase == "data":
            return []
        return [("first", str(self.first)), ("second", str(self.second)), ("difference", self._difference_text)]

    @property
    def _difference_text(self) -> str:
        return (
            f"{self.difference:.3g} (root mean square) in {self.tensor}; tolerance {self.tolerance:.3g}, measured by "
            "rounding noise"
        )

    def to_text(self) -> str:
        """The verdict, the place on both sides, the difference with its tolerance, and what differs there."""
        lines = [f"nbdebug compare: {self.headline}"]
        lines += [f"  {f'{label}:':<7} {text}" for label, text in self._details()]
        lines += [f"  - {cause}" for cause in self.causes]
        lines += [f"  note: {note}" for note in self.notes]
        checked = ", ".join(self.checked)
        rounding = f"; relative rounding error {self.roundoff:.2g}" if self.roundoff else ""
        return "\n".join([*lines, f"  compared: {checked}{rounding}"])


def _ratio_cell(row: ModuleRow) -> TextCell:
    """Return the largest difference of a module, where both sides have the result."""
    return TextCell(format_value(row.ratio), row.ratio, "soft") if row.matched else TextCell("no match")
