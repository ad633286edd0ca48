"""The picture of a forward pass that raised: the calls with their shapes, as rows and as a graph, the break marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from nbdebug.formatting import html_paragraph, html_table, join_names, to_json_value, truncate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Status = Literal["ran", "raised", "cut off"]
TITLE = "shapes up to the operation that raised"
_SIGNS: Mapping[Status, str] = {"ran": " ", "raised": "✕", "cut off": "…"}
_MAX_OPEN_ROWS, _MAX_TEXT_ROWS, _MAX_CHART_ROWS = 24, 40, 12
_MAX_LABEL_LENGTH = 84


@dataclass(frozen=True)
class TraceRow:
    """One call of a module, or one operation in the code of a module.

    ``status`` is "ran", "raised" or, around what raised, "cut off". ``level`` is the nesting depth. ``sources`` are the
    indices of the rows whose outputs it received; 0, the model, stands for its input. ``operands`` describes what met
    where it raised.
    """

    path: str
    kind: str
    inputs: str
    outputs: str
    status: Status
    level: int = 0
    sources: tuple[int, ...] = ()
    operands: str = ""
    is_operation: bool = False

    @property
    def name(self) -> str:
        """The path and the class of a module, or the name of an operation."""
        return self.kind if self.is_operation else f"{self.path} {self.kind}".strip()

    @property
    def outcome(self) -> str:
        """The outputs, or the status of a call that has none."""
        return self.outputs if self.status == "ran" else self.status


@dataclass(frozen=True)
class ShapeTrace:
    """The calls of a forward pass in order, up to the one that raised, and the modules that were not reached.

    Iterable; empty if the calls are unknown.
    """

    rows: tuple[TraceRow, ...] = ()
    not_reached: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[TraceRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def parents(self) -> list[list[int]]:
        """The rows around each row, the innermost first."""
        around: list[int] = []
        result = []
        for index, row in enumerate(self.rows):
            while around and self.rows[around[0]].level >= row.level:
                del around[0]
            result.append(list(around))
            around.insert(0, index)
        return result

    def open_rows(self, max_rows: int) -> list[int]:
        """Return the indices of the rows to show: all if they are few, else without what ran inside modules that ran.

        If there are still too many, the first are left out.
        """
        indices = list(range(len(self.rows)))
        if len(indices) > max_rows:
            indices = [i for i in indices if not any(self.rows[p].status == "ran" for p in self.parents[i] if p)]
        return indices if len(indices) <= max_rows else [0, *indices[1 - max_rows :]]

    def visible_sources(self, shown: Sequence[int]) -> dict[int, list[int]]:
        """Return the sources of each row that is shown; a row that is not shown is replaced by the one around it."""
        visible = set(shown)
        result: dict[int, list[int]] = {}
        for index in shown:
            paths = [[source, *self.parents[source]] for source in self.rows[index].sources]
            sources = {next((i for i in path if i in visible), None) for path in paths}
            result[index] = sorted(source for source in sources if source is not None and source < index)
        return result

    def edges(self, shown: Sequence[int]) -> dict[int, list[int]]:
        """Return the nodes of the graph with their sources.

        The model is the node of its input; another module that is shown with its calls is no node.
        """
        outer = {parent for index in shown for parent in self.parents[index][:1]} - {0}
        return {index: sources for index, sources in self.visible_sources(shown).items() if index not in outer}

    def state(self) -> dict[str, Any]:
        """Return what the page draws; rows inside modules that ran are folded if there are many."""
        is_open = set(self.open_rows(_MAX_OPEN_ROWS))
        names = ("path", "kind", "inputs", "outcome", "status", "level", "operands", "is_operation")
        rows = [
            {
                **{name: to_json_value(getattr(row, name)) for name in names},
                "sources": row.sources,
                "open": i in is_open,
            }
            for i, row in enumerate(self.rows)
        ]
        return {"rows": rows, "not_reached": self._not_reached_text()}

    def _not_reached_text(self) -> str:
        return f"not reached: {join_names(self.not_reached, 8)}" if self.not_reached else ""

    @property
    def operands(self) -> str:
        """A description of what met where the pass raised; "" if it is unknown."""
        return next((row.operands for row in self.rows if row.operands), "")

    def to_text(self) -> str:
        """Return one line per call, with the calls that feed it where that is not the one above."""
        shown = self.open_rows(_MAX_TEXT_ROWS)
        if not shown:
            return ""
        cells = self._cells(shown)
        widths = [max(len(row[column]) for row in cells) for column in range(4)]
        lines = ["  " + " ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=False)) for row in cells]
        lines = [f"{line} {row[4]}".rstrip() for line, row in zip(lines, cells, strict=True)]
        notes = [f"    met: {self.operands}"] if self.operands else []
        notes += [f"    {self._not_reached_text()}"] if self.not_reached else []
        return "\n".join([f"{TITLE}:", *lines, *notes])

    def _cells(self, shown: Sequence[int]) -> list[tuple[str, str, str, str, str]]:
        """Return sign, number, name, sources and shapes of each row."""
        edges = self.edges(shown)
        nodes = list(edges)
        cells = []
        for index in shown:
            row = self.rows[index]
            before = nodes[nodes.index(index) - 1] if index in nodes[1:] else None
            names = ["input" if source == 0 else str(source) for source in edges.get(index, ())]
            origin = f"from {', '.join(names)}" if names and edges[index] != [before] else ""
            shapes = row.inputs if index == 0 and row.status == "cut off" else f"{row.inputs} → {row.outcome}"
            name = "  " * max(row.level - 1, 0) + row.name
            cells.append((_SIGNS[row.status], f"{index}." if index in nodes[1:] else "", name, origin, shapes))
        return cells

    def html(self) -> str:
        """Return a table of the calls, for readers without scripts."""
        shown = self.open_rows(_MAX_TEXT_ROWS)
        if not shown:
            return ""
        head = ("", "row", "module or operation", "from", "inputs → outputs")
        met = html_paragraph(f"What met: {self.operands}" if self.operands else "")
        title = html_paragraph(TITLE.capitalize())
        return title + html_table(self._cells(shown), head) + met + html_paragraph(self._not_reached_text())

    def draw(self, ax: Axes) -> None:
        """Draw the graph of the last calls, from top to bottom, with an arc for each tensor that passes over others."""
        shown = self.open_rows(_MAX_CHART_ROWS)
        edges = self.edges(shown)
        height = {index: -position for position, index in enumerate(edges)}
        for index, sources in edges.items():
            color = "C3" if self.rows[index].status == "raised" else "0.6"
            for source in sources:
                span = height[source] - height[index]
                bend = 0.0 if span == 1 else min(0.25 + 0.12 * span, 1.0)
                middle = (height[source] + height[index]) / 2
                xs, ys = _curve((0, height[source]), (-2 * bend, middle), (0, height[index]))
                ax.plot(xs, ys, color=color, linewidth=1, zorder=1)
        for index, y in height.items():
            row = self.rows[index]
            is_break = row.status == "raised"
            marker, color = ("X", "C3") if is_break else ("o", "C0") if index else ("s", "0.3")
            ax.plot([0], [y], marker=marker, color=color, markersize=7, zorder=2)
            shapes = row.inputs if index == 0 else row.operands or f"{row.inputs} → {row.outcome}"
            text = truncate(f"{row.name}   {shapes}", _MAX_LABEL_LENGTH)
            weight = "bold" if is_break else "normal"
            ax.text(0.15, y, text, va="center", fontsize=8, weight=weight, parse_math=False, clip_on=False)
        ax.set(xlim=(-1.2, 6), ylim=(min(height.values(), default=0) - 0.6, 0.6))
        ax.set_title(TITLE, fontsize=9, loc="left")
        ax.set_axis_off()


def _curve(start: tuple[float, float], middle: tuple[float, float], end: tuple[float, float]) -> tuple[Any, Any]:
    """Return the points of a quadratic Bézier curve."""
    steps = [i / 16 for i in range(17)]
    points = [
        [(1 - t) ** 2 * a + 2 * t * (1 - t) * b + t**2 * c for t in steps]
        for a, b, c in zip(start, middle, end, strict=True)
    ]
    return points[0], points[1]
