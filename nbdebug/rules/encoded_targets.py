"""D115 for columns that hold the mean target of a category, of which each row is a part."""

from __future__ import annotations

import ast

import torch

from nbdebug.finding import Finding
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.target_encoding import TargetEncoding
from nbdebug.setup import Setup
from nbdebug.setup.column_lines import column_line
from nbdebug.setup.data_lines import leaking_line
from nbdebug.setup.target_reads import find_target_read
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import chosen_branch, part_producer, returned_expressions
from nbdebug.source.scopes import Expression, Scope, file_scope
from nbdebug.source.search import enclosing_scope, walk

_RELATIONS = {
    "mean": "equals, up to scaling, the mean target of the rows with the same value",
    "smoothed mean": "equals, up to scaling, a smoothed mean target of a category, (sum + p w) / (size + w) with a "
    "prior p and a weight w",
    "function": "is a function of the targets of a category: the share of ones among the rows with the same value is a "
    "simple fraction, as in two or three rows",
}


def encoding_finding(
    setup: Setup, tables: dict[str, SplitTable], name: str, encoding: TargetEncoding, *, is_noise: bool
) -> Finding:
    """Report a column that encodes a category by the targets of its rows; ``is_noise`` if chance varies its means."""
    rows = "training and validation rows" if encoding.has_validation else "training rows"
    size = f"{encoding.rows / encoding.values:.1f} per group on average"
    groups = f"{encoding.values} groups ({encoding.rows:,} {rows}, {size})"
    own = (
        f"The variance within the groups explains {encoding.noise_share:.0%} of the variance between their means."
        if is_noise
        else f"In {encoding.pure_share:.0%} of the rows, the value occurs with one target only: that of the row."
    )
    return Finding(
        message=f"{name[:1].upper()}{name[1:]} of input {encoding.input_index} {_RELATIONS[encoding.kind]}, in each of "
        f"its {groups}. {own}{_describe_correlations(tables, encoding)}",
        cause=f"A category was encoded by the targets of all its {rows}, which include the row itself.",
        fix="# compute the mean out of fold, or without the row's own target: (sum - target) / (size - 1). For a group "
        "of one row, use the mean of all targets. If you shrink the means toward that mean, use one formula for both "
        "splits.",
        evidence={
            "input": encoding.input_index,
            "column": encoding.column,
            "columns": tables["train"].inputs[encoding.input_index].shape[1],
            "values": encoding.values,
            "rows per group": encoding.rows / encoding.values,
            "share of rows with a single target": encoding.pure_share,
            "share of variance within groups": encoding.noise_share,
        },
        explains=("T611", "D105", "D107"),
        severity="warning" if is_noise else None,
    )


def _describe_correlations(tables: dict[str, SplitTable], encoding: TargetEncoding) -> str:
    """State the correlation of the column with the target in both splits; nothing if one cannot be read."""
    stated = [
        f"{correlation:.2f} in {split}"
        for split, key in (("training", "train"), ("validation", "val"))
        if (correlation := _correlation(tables.get(key), encoding)) is not None
    ]
    return f" Its correlation with the target is {' and '.join(stated)}." if len(stated) == 2 else ""


def _correlation(table: SplitTable | None, encoding: TargetEncoding) -> float | None:
    part = table.inputs[encoding.input_index] if table and len(table.inputs) > encoding.input_index else None
    if table is None or part is None or part.dim() != 2 or part.shape[1] <= encoding.column or len(table) < 2:
        return None
    if len(table.targets) != 1 or table.targets[0].numel() != len(table):
        return None
    pair = torch.stack([part[:, encoding.column].double(), table.targets[0].reshape(len(table)).double()])
    correlation = float(torch.corrcoef(pair)[0, 1])
    return correlation if correlation == correlation else None


def revealing_column_line(setup: Setup, finding: Finding) -> SourceLine | None:
    """Return the line that makes the column which a finding names; of an encoding, the one that reads the targets."""
    evidence = finding.evidence
    line = _encoding_line(setup) if "rows per group" in evidence else None
    if line or "columns" not in evidence:
        return line
    return column_line(setup, evidence["input"], evidence["column"], evidence["columns"])


def _encoding_line(setup: Setup) -> SourceLine | None:
    """Return the line that computes the column of the targets, in the function that returns it for each row.

    Of several functions that a call may run, it is the only one that does not subtract an argument, as a mean without
    the row itself does; if there are more, the call that chooses.
    """
    line = leaking_line(setup) or find_target_read(setup)
    statement = covering_statement(line) if line else None
    if line is None or not isinstance(statement, ast.Assign):
        return line
    scope = Scope(line.file, line.function, file_scope(line.file).variables)
    call = chosen_branch(Expression(scope, statement.value))
    if not isinstance(call.node, ast.Call) or not isinstance(call.node.func, (ast.Name, ast.IfExp)):
        return line
    values = [value for returned in returned_expressions(call) if (value := _own_value(returned)) is not None]
    values = [value for value in values if not _subtracts_argument(value)] or values
    targets = {ast.unparse(target) for target in statement.targets}
    if len(values) != 1 or not isinstance(values[0].node, (ast.BinOp, ast.Call)) or _is_looked_up(line, targets):
        return line
    return values[0].line


def _own_value(returned: Expression) -> Expression | None:
    """Return the expression of a function that makes the values that it returns; None if they are made elsewhere."""
    made = part_producer(returned, None, enters=lambda _: False, passes_conversions=True)
    if isinstance(made.node, ast.Subscript) and isinstance(made.node.value, ast.Name):  # the means of all categories
        owner = Expression(made.scope, made.node.value)
        made = part_producer(owner, None, enters=lambda _: False, passes_conversions=True)
    return made if made.scope is returned.scope else None


def _subtracts_argument(value: Expression) -> bool:
    """Check whether an expression subtracts an argument of its function as it is."""
    subtracted = [node.right for node in ast.walk(value.node) if _is_difference(node)]  # type: ignore[attr-defined]
    return any(getattr(node, "id", "") in value.scope.arguments for node in subtracted)


def _is_difference(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


def _is_looked_up(line: SourceLine, names: set[str]) -> bool:
    """Check whether the function around a line reads some variables by an index, as the means of all categories are."""
    nodes = walk(enclosing_scope(line))
    return any(isinstance(node, ast.Subscript) and ast.unparse(node.value) in names for node in nodes)
