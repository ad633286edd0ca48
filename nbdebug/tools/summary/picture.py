"""The summary as a table on a page, and as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from nbdebug.finding import Finding
from nbdebug.portrait import Portrait
from nbdebug.tools.summary.rates import Group
from nbdebug.tools.summary.result import Row, Summary
from nbdebug.views import table
from nbdebug.views.table import Cell, Column, Said, Table, Tag, fitting, percent, words

MOST_LINES = 200
MOST_SHAPES = 3
MOST_OPEN = 60
COLUMNS = (
    Column("module", hint="A click on a row shows the tensors that it holds, is given and gives."),
    Column("input → output", "code", "The shapes of the first call of one forward pass."),
    Column("parameters", "bar", "Each counted where it comes first; the bar is the part of the whole model."),
    Column("trainable", "share", "The share of the parameters with requires_grad."),
    Column("mode", hint="train or eval, as dropout and batch normalization see it."),
    Column("optimizer", hint="The group that holds the parameters, and its learning rate now."),
    Column("weight", "code", "Range, mean and standard deviation of its weight, as it is now; sorted by the last."),
    Column("findings", hint="What the debugger has said so far; a click shows it."),
)
ABSENT = {"not run": "not run", "not reached": "not reached", "cut off": "", "holds": "", "ran": ""}


def view(result: Summary) -> Table:
    """The table of a page."""
    hot = {part for row in result.rows if row.findings or row.status == "raised" for part in above(row.path)}
    small = len(result.rows) <= MOST_OPEN
    return Table(
        title="Summary",
        status=subject(result),
        columns=COLUMNS,
        rows=[
            table.Row(
                row.name,
                cells(row, result),
                kind_of(row),
                row.level,
                details(row),
                folded=not small and row.level > 0 and row.path not in hot,
            )
            for row in result.rows
        ],
        notice=(stop(result), "error" if result.stopped else ""),
        note=remark(result),
        noun="modules",
        rooted=True,
    )


def above(path: str) -> list[str]:
    """The paths of all that a submodule is in."""
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts))]


def subject(result: Summary) -> str:
    """The model in one line."""
    whole = result.whole
    share = f"{percent(whole.share)} trainable" if whole.share is not None else ""
    optimizer = trained(whole, result) if result.optimizers else "no optimizer"
    parts = [whole.name, f"{whole.parameters:,} parameters", share, mode(result), optimizer]
    return " · ".join(filter(None, [*parts, f"batch {result.batch}" if result.batch else ""]))


def mode(result: Summary) -> str:
    """Train mode, eval mode, or how many of the submodules are in train mode."""
    training = sum(row.training for row in result.rows)
    if training in (0, len(result.rows)):
        return f"{'train' if training else 'eval'} mode"
    return f"{training} of {len(result.rows)} modules in train mode"


def stop(result: Summary) -> str:
    """Why the forward pass ended early."""
    if not result.stopped:
        return ""
    raised = next((row.path or row.name for row in result.rows if row.status == "raised"), None)
    return f"The forward pass stopped{f' in {raised}' if raised else ''}: {result.stopped}"


def remark(result: Summary) -> str:
    """What is known of findings beside those in the table."""
    if not result.checked:
        return "No tool has looked for faults yet; dbg.checkup() does, and a summary after it shows what it found."
    if not result.unplaced:
        return ""
    codes = ", ".join(dict.fromkeys(one.code for one in result.unplaced))
    return f"Findings that name no module: {codes}; dbg.findings has them."


def kind_of(row: Row) -> str:
    """The class of a submodule, where it stands elsewhere too, and how often it ran."""
    kind = row.kind if row.path else ""
    same = f"= {row.same_as or 'the model'}" if row.same_as is not None else ""
    often = f"×{row.calls}" if row.calls > 1 and row.same_as is None else ""
    return " ".join(filter(None, [kind, same, often]))


def cells(row: Row, result: Summary) -> list[Cell]:
    """The cells of a row, in the order of the columns."""
    first = row.first
    return [
        flow(row),
        held(row),
        row.share,
        "train" if row.training else "eval",
        trained(row, result) or None,
        Said(first.values, first.std) if first and first.values else None,
        [Tag(one.code, one.severity or "note", f"{one.name}: {one.message}") for one in row.findings],
    ]


def flow(row: Row) -> Cell:
    """The shapes that go in and come out, or how far the pass came."""
    if row.status == "raised":
        return Said(f"{shapes(row.inputs)} → raised", None, "error")
    if row.outputs:
        return f"{shapes(row.inputs)} → {shapes(row.outputs)}"
    return Said(ABSENT[row.status]) if ABSENT[row.status] else None


def shapes(portraits: Sequence[Portrait]) -> str:
    """The shapes of some tensors, the first three."""
    found = ["nested" if one.shape is None else str([*one.shape]) for one in portraits]
    rest = len(found) - MOST_SHAPES
    return ", ".join(found[:MOST_SHAPES]) + (f", +{rest}" if rest > 0 else "") or "()"


def held(row: Row) -> Cell:
    """The number of parameters; of those that come earlier in the model too it is said that they are tied."""
    if row.tied:
        words = f"{row.parameters:,} + {row.tied:,} tied" if row.parameters else f"{row.tied:,} tied"
        return Said(words, row.parameters)
    return row.parameters or None


def trained(row: Row, result: Summary) -> str:
    """The groups that hold the parameters, and how many are in none."""
    known = spoken(row.groups)
    missing = f"{row.loose:,} in no group" if row.loose and result.optimizers else ""
    return "; ".join(filter(None, [known, missing]))


def spoken(groups: Sequence[Group]) -> str:
    """One group or two by name, more of them by their number and rates."""
    if len(groups) <= 2:
        return "; ".join(map(str, groups))
    rates = [one.rate for one in groups if one.rate is not None]
    said = [f"{rate:.4g}" for rate in (min(rates), max(rates))] if rates else []
    return f"{len(groups)} groups" + (f", lr {' to '.join(dict.fromkeys(said))}" if said else "")


def details(row: Row) -> list[tuple[str, str]]:
    """The tensors that a submodule is given, gives and holds, a line each."""
    given = [("input", str(one)) for one in row.inputs]
    made = [("output", str(one)) for one in row.outputs]
    return [*given, *made, *((name, str(one)) for name, one in row.tensors)]


def text(result: Summary) -> str:
    """A line for each submodule in columns, then what its findings say."""
    shown = fitting(result.rows, MOST_LINES)
    body = [[f"{'  ' * row.level}{row.name} {kind_of(row)}".rstrip(), *starmap(words, zip(cells(row, result), COLUMNS[1:], strict=True))] for row in shown]
    lines = [[one.name for one in COLUMNS], *body]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    more = len(result.rows) - len(shown)
    rest = [f"… and {more:,} more modules that lie deeper"] if more else []
    told = [said(row, one) for row in result.rows for one in row.findings]
    return "\n".join(filter(None, [f"nbdebug summary: {subject(result)}", stop(result), *aligned, *rest, *told, remark(result)]))


def said(row: Row, finding: Finding) -> str:
    """A finding on one line."""
    return f"{row.path or row.name}: {finding.severity} {finding.code} {finding.name}: {finding.message}"
