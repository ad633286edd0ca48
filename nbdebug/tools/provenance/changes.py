"""Differences between two snapshots of a program."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbdebug.result import Result
from nbdebug.tools.provenance.snapshot import SECTIONS, ProgramSnapshot
from nbdebug.views.table import Column, FoldableTable, TableRow

if TYPE_CHECKING:
    import pandas

    from nbdebug.views.page import View

_MAX_TEXT = 300  # characters of a value in a table
_SIMILAR = 0.5  # share of equal text above which a cell counts as changed, not as another one; difflib's own is 0.6
_NO_VALUE = "—"


@dataclass(frozen=True)
class _FactChange:
    """A fact that differs: its section, name, and its values before and after."""

    section: str
    name: str
    before: str
    after: str

    @property
    def is_one_sided(self) -> bool:
        """True if only one of the snapshots has the fact."""
        return _NO_VALUE in (self.before, self.after)


@dataclass(frozen=True)
class _CodeChange:
    """A cell or a file that was changed, added or removed, with the diff of its lines."""

    name: str
    kind: str
    diff: str


@dataclass(frozen=True)
class SnapshotChanges(Result):
    """Differences between two snapshots: facts by section, and the code by cell.

    ``new_cells`` are the cells that have run since. ``hidden_parts`` are the parts of the training state that changed
    while no run was watched, as far as that is known.
    """

    has_chart = False

    changes: tuple[_FactChange, ...]
    code: tuple[_CodeChange, ...]
    before: str = ""
    after: str = ""
    new_cells: tuple[str, ...] = ()
    hidden_parts: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The number of changes in each section."""
        counts = {section: sum(c.section == section for c in self.changes) for section in SECTIONS}
        parts = [f"{count} in {section}" for section, count in counts.items() if count]
        parts += [f"{len(self.code)} in the code"] if self.code else []
        return f"Changed: {', '.join(parts)}." if parts else "Nothing has changed."

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per change; the code with its diff as the value after."""
        import pandas as pd

        rows = [(c.section, c.name, c.before, c.after) for c in self.changes]
        rows += [("code", c.name, c.kind, c.diff) for c in self.code]
        return pd.DataFrame(rows, columns=["section", "name", "before", "after"])

    def view(self) -> View:
        """A table of the changes; a row of the code opens its diff."""
        rows = [TableRow(c.name, (c.section, c.before[:_MAX_TEXT], c.after[:_MAX_TEXT])) for c in self.changes]
        rows += [TableRow(c.name, ("code", "", c.kind), details=(("diff", c.diff),)) for c in self.code]
        columns = (Column("name"), Column("section"), Column("before", "code"), Column("after", "code"))
        status = f"{self.before} → {self.after}"
        return FoldableTable(title="Changes", status=status, columns=columns, rows=rows, notice=(self.headline, "note"),
                             noun="changes")  # fmt: skip

    def to_text(self) -> str:
        """The changes by section, then the diff of each cell."""
        lines = [f"nbdebug compare: {self.headline}"]
        lines += [f"  {c.section}: {c.name}: {c.before[:_MAX_TEXT]} → {c.after[:_MAX_TEXT]}" for c in self.changes]
        for change in self.code:
            lines += [f"  code: {change.name} {change.kind}", *(f"    {line}" for line in change.diff.splitlines())]
        return "\n".join(lines)


def compare_snapshots(before: ProgramSnapshot, after: ProgramSnapshot) -> SnapshotChanges:
    """Return what differs between two snapshots."""
    changes = [change for section in SECTIONS for change in _section_changes(section, before, after)]
    known = {name for name, _ in before.cells}
    new_cells = tuple(name for name, _ in after.cells if name not in known and name.startswith("In["))
    is_watched = before.watched != after.watched
    hidden_parts = () if is_watched else tuple(change.name for change in changes if change.section == "state")
    code = tuple(_code_changes(before, after))
    return SnapshotChanges(tuple(changes), code, before.taken, after.taken, new_cells, hidden_parts)


def _section_changes(section: str, before: ProgramSnapshot, after: ProgramSnapshot) -> Iterator[_FactChange]:
    old, new = getattr(before, section), getattr(after, section)
    for name in dict.fromkeys([*old, *new]):
        values = [_text(facts.get(name, _NO_VALUE)) for facts in (old, new)]
        if values[0] != values[1]:
            if (section, name) == ("git", "diff"):
                values = [f"{len(value.splitlines())} lines" for value in values]
            yield _FactChange(section, name, *values)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _code_changes(before: ProgramSnapshot, after: ProgramSnapshot) -> Iterator[_CodeChange]:
    """Yield the changes of cells, which are aligned by their sources, since a cell gets another number in each run."""
    old, new = before.cells, after.cells
    matcher = difflib.SequenceMatcher(a=[source for _, source in old], b=[source for _, source in new], autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            continue
        removed, added = list(old[i:j]), list(new[k:m])
        for name, source in added:
            partner = max(removed, key=lambda cell: (cell[0] == name, _similarity(cell[1], source)), default=None)
            if partner is not None and (partner[0] == name or _similarity(partner[1], source) >= _SIMILAR):
                removed.remove(partner)
                label = name if partner[0] == name else f"{partner[0]} → {name}"
                if partner[1] != source:
                    yield _CodeChange(label, "changed", _diff(partner[1], source))
            else:
                yield _CodeChange(name, "added", _diff("", source))
        yield from (_CodeChange(name, "removed", _diff(source, "")) for name, source in removed)


def _similarity(first: str, second: str) -> float:
    return difflib.SequenceMatcher(a=first, b=second, autojunk=False).quick_ratio()


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))
