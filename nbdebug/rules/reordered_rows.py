"""The finding of M304 on output rows that are in another order than the samples of the batch."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit, Finding
from nbdebug.measurements.row_order import ReorderedRows
from nbdebug.rule_engine.expression_edits import expressions_at, line_of
from nbdebug.source.assignments import covering_statement, next_assignment
from nbdebug.source.edits import describe_edits, wrap_node
from nbdebug.source.location import SourceLine, get_related_lines
from nbdebug.source.search import call_name, enclosing_scope

_CONSEQUENCES = ("T601", "T606", "T607", "T608", "T609", "T610", "E702", "E703", "E706", "E709", "D105", "M306", "M310")
_SELECTIONS = ("index_select", "gather", "take_along_dim")


def reordered_rows_finding(rows: ReorderedRows) -> Finding:
    """Report output rows that belong to other samples than the targets they meet; a note if no loss is known."""
    index = _restoring_index(rows)
    edits = _restoring_edits(line_of(rows.where), index)
    return Finding(
        message=f"The rows of the output are in another order than the inputs: row {rows.row} belongs to sample "
        f"{rows.sample}. {rows.displaced} of {rows.checked} checked samples have their output in the row of another "
        "sample.",
        where=rows.where,
        related=get_related_lines((rows.reordering_line, "the order of the samples changes here")),
        cause="The model changes the order of its samples and does not restore it."
        + (" The loss compares each output with the target of another sample." if rows.is_loss_changed else ""),
        fix=describe_edits(edits)
        or (
            f"output = output[{index}]   # in the order of the inputs"
            if index
            else "Put the output rows back into the order of the samples: index them with argsort() of the permutation "
            "that changed it."
        ),
        edits=edits,
        evidence={"sample": rows.sample, "row": rows.row, "displaced": rows.displaced, "checked": rows.checked},
        explains=_CONSEQUENCES,
        severity="error" if rows.is_loss_changed else "note",
    )


def _restoring_index(rows: ReorderedRows) -> str:
    """Return the index that restores the order, in the user's names; "" if the line that returns rows has none."""
    name, place = _index_name(rows.reordering_line), line_of(rows.where)
    if not rows.restored_by or not name or place is None or rows.reordering_line is None:
        return ""
    if enclosing_scope(place) is not enclosing_scope(rows.reordering_line):
        return ""
    changed = next_assignment(rows.reordering_line, (name,))
    if changed is not None and changed.number < place.number:
        return ""
    return f"{name}.argsort()" if rows.restored_by == "argsort" else name


def _index_name(line: SourceLine | None) -> str:
    """Return the only variable by which a line selects rows; "" if there is none, or another one as well."""
    indices: list[ast.expr] = []
    for node in expressions_at(line):
        if isinstance(node, ast.Subscript):
            indices += node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        elif isinstance(node, ast.Call) and call_name(node) in _SELECTIONS:
            indices += [*node.args, *(keyword.value for keyword in node.keywords)]
    names = {index.id for index in indices if isinstance(index, ast.Name)}
    return names.pop() if len(names) == 1 else ""


def _restoring_edits(place: SourceLine | None, index: str) -> tuple[Edit, ...]:
    """Return the change of the statement that makes the rows into one that restores their order."""
    statement = covering_statement(place) if place else None
    if not index or place is None or not isinstance(statement, (ast.Return, ast.Assign)) or statement.value is None:
        return ()
    is_single = not isinstance(statement, ast.Assign) or all(isinstance(t, ast.Name) for t in statement.targets)
    if not is_single or isinstance(statement.value, (ast.Tuple, ast.Dict, ast.List)):
        return ()
    return (wrap_node(place.file, statement.value, f"{{}}[{index}]"),)
