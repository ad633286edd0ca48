"""The summary as a table on a page."""

from __future__ import annotations

from nbdebug.tools.summary.phrases import kind_of, remark, shapes, stop, subject, trained
from nbdebug.tools.summary.result import Row, Summary
from nbdebug.views import table
from nbdebug.views.table import Cell, Column, Said, Table, Tag, fitting

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


def view(result: Summary) -> Table:
    """The table of a page."""
    hot = {part for row in result.rows if row.findings or row.status == "raised" for part in above(row.path)}
    open_to = max(row.level for row in fitting(result.rows, MOST_OPEN))
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
                folded=row.level >= open_to and row.path not in hot,
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


def cells(row: Row, result: Summary) -> list[Cell]:
    """The cells of a row, in the order of the columns."""
    first = row.first
    return [
        flow(row),
        held(row),
        row.share,
        Said("train" if row.training else "eval", tone="" if row.training == result.whole.training else "note"),
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
    if row.status == "cut off":
        return f"{shapes(row.inputs)} → …"
    return Said(row.status, tone="soft") if row.status != "holds" else None


def held(row: Row) -> Cell:
    """The number of parameters; of those that come earlier in the model too it is said that they are tied."""
    if row.tied:
        words = f"{row.parameters:,} + {row.tied:,} tied" if row.parameters else f"{row.tied:,} tied"
        return Said(words, row.parameters)
    return row.parameters or None


def details(row: Row) -> list[tuple[str, str]]:
    """The tensors that a submodule is given, gives and holds, a line each."""
    given = [("input", str(one)) for one in row.inputs]
    made = [("output", str(one)) for one in row.outputs]
    return [*given, *made, *((name, str(one)) for name, one in row.weights + row.buffers)]
