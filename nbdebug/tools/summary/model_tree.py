"""A summary as a tree that folds in plain HTML, without scripts: a model at the end of a cell, on any page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from nbdebug.tools.summary.result import (
    Summary,
    SummaryRow,
    findings_note,
    kind_text,
    model_line,
    optimizer_text,
    shape_flow,
    short_count,
    stop_text,
)
from nbdebug.views.table import Column, cell_text, format_percent, limit_rows

_MAX_BYTES = 15_000
_MAX_LINES, _MAX_OPEN_LINES = 300, 40
_MIN_RUN = 3  # siblings that are alike, from which on they share a line
_SIGNS = {"error": "✕", "warning": "▲", "note": "●"}


@dataclass
class _ModuleLine:
    """A submodule, those inside it, and the siblings after it that are alike."""

    row: SummaryRow
    children: list[_ModuleLine] = field(default_factory=list)
    alike: list[_ModuleLine] = field(default_factory=list)
    is_shown: bool = True

    def lines(self) -> Iterator[_ModuleLine]:
        """Yield this submodule and all inside it that have a line of their own."""
        yield self
        for child in self.children:
            yield from child.lines()

    @property
    def shown_children(self) -> list[_ModuleLine]:
        """The children for which there is room."""
        return [child for child in self.children if child.is_shown]

    @property
    def has_fault(self) -> bool:
        """True if this submodule or one inside it has a finding, or raised."""
        return any(node.row.findings or node.row.status == "raised" for node in self.lines())

    @property
    def pattern(self) -> tuple[object, ...]:
        """What siblings must have in common to share a line: everything but name, gradient and values."""
        row = self.row
        facts = (row.kind, row.same_as, row.status, row.calls, row.parameters, row.tied, row.trainable, row.training)
        shapes = tuple(tensor.shape for tensor in (*row.inputs, *row.outputs))
        children = tuple((child.row.name, len(child.alike), child.pattern) for child in self.children)
        return (*facts, row.groups, row.loose, row.held_bytes, row.findings, shapes, children)


def model_tree(result: Summary) -> str:
    """Return the tree as HTML of at most 15 kB; of a larger one, faults and the upper levels are kept."""
    root = _grow(result.rows)
    lines = sorted(root.lines(), key=lambda node: (not node.has_fault, node.row.level))
    room = min(len(lines), _MAX_LINES)
    while True:
        for position, node in enumerate(lines):
            node.is_shown = position < room
        page = _page(root, result, len(lines) - room)
        if len(page.encode()) <= _MAX_BYTES or room == 1:
            return page
        room = max(1, int(0.9 * room))


def _grow(rows: Sequence[SummaryRow]) -> _ModuleLine:
    """Return the tree of the rows, in which siblings that are alike share a line."""
    root = _ModuleLine(rows[0])
    path = [root]
    for row in rows[1:]:
        del path[row.level :]
        path[-1].children.append(_ModuleLine(row))
        path.append(path[-1].children[-1])
    _join_siblings(root)
    return root


def _join_siblings(node: _ModuleLine) -> None:
    for child in node.children:
        _join_siblings(child)
    runs = [list(run) for _, run in groupby(node.children, key=lambda child: child.pattern)]
    node.children = [child for run in runs for child in (run if len(run) < _MIN_RUN else [_lead(run)])]


def _lead(run: list[_ModuleLine]) -> _ModuleLine:
    run[0].alike = run[1:]
    return run[0]


def _page(root: _ModuleLine, result: Summary, hidden: int) -> str:
    shown = [node.row for node in root.lines() if node.is_shown]
    max_open_level = max(row.level for row in limit_rows(shown, _MAX_OPEN_LINES))
    notes = [stop_text(result), f"… and {hidden:,} more lines; dbg.summary() lists all modules." if hidden else ""]
    notes.append(findings_note(result) if result.batch else "")
    below = "".join(f"<small>{escape(note)}</small><br>" for note in notes if note)
    above = f"<small>{escape(model_line(result))}</small>"
    tree = _TreeMarkup(result, max_open_level).html(root, None)
    return (
        f'<div class="nb-model"><style>{_style()}</style>{above}<p><span></span>{_heads(result)}</p>{tree}{below}</div>'
    )


@cache
def _style() -> str:
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8").replace("\n", "")


def _heads(result: Summary) -> str:
    memory = '<u title="of parameters, their gradients, buffers, and outputs for this batch">memory</u>'
    shapes = _cell("input → output", "code") if result.batch else ""
    return shapes + _cell("parameters") + memory + (_cell("gradient") if _has_gradient(result) else "")


def _has_gradient(result: Summary) -> bool:
    return result.model_row.gradient is not None


def _cell(text: str, tag: str = "u") -> str:
    return f"<{tag}>{escape(text)}</{tag}>"


@dataclass
class _TreeMarkup:
    """The HTML of the branches of one tree; those up to ``max_open_level`` and those with a fault are open."""

    result: Summary
    max_open_level: int

    def html(self, node: _ModuleLine, parent: SummaryRow | None) -> str:
        """Return a submodule with those inside it."""
        line = f"<p>{self._line(node, parent)}</p>"
        if not node.shown_children:
            return line
        is_open = node.row.level < max(1, self.max_open_level) or any(child.has_fault for child in node.children)
        inside = "".join(self.html(child, node.row) for child in node.shown_children)
        return f"<details{' open' * is_open}><summary>{line}</summary><div>{inside}</div></details>"

    def _line(self, node: _ModuleLine, parent: SummaryRow | None) -> str:
        row = node.row
        name = row.name if not node.alike else f"{row.name} … {node.alike[-1].row.name}"
        alike = f"{len(node.alike) + 1} alike" if node.alike else ""
        facts = " · ".join(filter(None, [kind_text(row), alike, *self._settings(row, parent)]))
        marks = "".join(
            f' <mark class="nb-{finding.severity}" title="{escape(finding.message)}">'
            f"{_SIGNS.get(finding.severity or '', '')} {escape(finding.code)} {escape(finding.name)}</mark>"
            for finding in row.findings
        )
        cells = [f"<span><b>{escape(name)}</b> <i>{escape(facts)}</i>{marks}</span>"]
        if self.result.batch:
            cells.append(_cell(cell_text(shape_flow(row), Column("")), "code"))
        count = row.parameters or row.tied
        cells += [_cell(short_count(count).strip() if count else ""), _cell(_memory_text(row))]
        if _has_gradient(self.result):
            cells.append(_cell(_gradient_text([node.row, *(other.row for other in node.alike)])))
        return "".join(cells)

    def _settings(self, row: SummaryRow, parent: SummaryRow | None) -> Iterator[str]:
        """Yield mode, frozen parameters and optimizer group where they differ from those of the parent."""
        if parent is None:
            return
        if row.training != parent.training:
            yield "train" if row.training else "eval"
        if row.share == 0 and parent.share != 0:
            yield "frozen"
        group = optimizer_text(row, self.result)
        if group and group != optimizer_text(parent, self.result):
            yield group
        if row.tied and row.same_as is None:
            yield f"{row.tied:,} tied"


def _memory_text(row: SummaryRow) -> str:
    total = row.held_bytes + row.output_bytes
    return f"{short_count(total)}B" if total else ""


def _gradient_text(rows: Iterable[SummaryRow]) -> str:
    """Return the share of the gradient; of modules that are alike, the range."""
    shares = sorted(row.gradient for row in rows if row.gradient is not None)
    return " – ".join(dict.fromkeys(format_percent(share) for share in [*shares[:1], *shares[-1:]]))
