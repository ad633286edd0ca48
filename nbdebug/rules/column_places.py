"""The line of a finding on one column of the inputs."""

from __future__ import annotations

import ast
from dataclasses import replace

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from nbdebug.setup.column_lines import column_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_name, find_unique_line

_INDEXING_CALLS = {"groupby", "set_index", "pivot_table", "pivot", "value_counts", "unstack", "describe"}


def only_column_line(setup: Setup, finding: Finding) -> SourceLine | None:
    """Return the line that makes the only column of a table that a finding names by its evidence; None for several."""
    evidence = finding.evidence
    rows = evidence.get("features", ())
    if len(rows) != 1 or "columns" not in evidence:
        return None
    return column_line(setup, evidence["input"], rows[0], evidence["columns"])


def at_row_numbers(setup: Setup, finding: Finding) -> Finding:
    """Return a finding on a column of row numbers with the only call that makes the index of a table a column."""
    line = find_unique_line(_keeps_index, user_written_objects(setup))
    if line is None:
        return finding
    return replace(
        finding, where=get_location(line), fix="table = table.reset_index(drop=True)", edits=(), setup_fix=""
    )


def _keeps_index(node: ast.AST) -> bool:
    """Check for a call of ``reset_index`` on numbered rows, which makes their numbers a column, unless it drops them.

    Behind a call that groups rows or chooses an index, the column is no number of rows.
    """
    if call_name(node) != "reset_index" or not isinstance(node, ast.Call):
        return False
    if any(call_name(part) in _INDEXING_CALLS for part in ast.walk(node.func)):
        return False
    drops = [keyword.value for keyword in node.keywords if keyword.arg == "drop"]
    return not any(isinstance(value, ast.Constant) and value.value for value in drops)
