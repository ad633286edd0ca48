"""Which change of a sign on a line of the loss mends it, tried with the loss as it reads afterwards."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edited_functions import exchanged_code, find_edited_code
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine

_MAX_TRIALS = 12


def find_sign_change(line: SourceLine | None, is_mended: Callable[[], bool]) -> tuple[Edit, ...]:
    """Return the only change of a sign in the statement on a line after which ``is_mended`` is true; else ().

    The functions around the line have the changed code only while ``is_mended`` runs.
    """
    if line is None:
        return ()
    cures: list[Edit] = []
    for _, edit in zip(range(_MAX_TRIALS), _sign_changes(line), strict=False):
        codes = find_edited_code([edit])
        if not codes:
            continue
        with exchanged_code(codes):
            try:
                has_mended = is_mended()
            except Exception:  # the loss does not run with this sign
                has_mended = False
        cures += [edit] if has_mended else []
    return tuple(cures) if len(cures) == 1 else ()


def _sign_changes(line: SourceLine) -> Iterator[Edit]:
    """Yield the change of the sign of the whole value of a statement, then of each of its terms."""
    statement = covering_statement(line)
    value = statement.value if isinstance(statement, (ast.Return, ast.Assign)) else None
    if value is None or isinstance(value, ast.Tuple):
        return
    if not isinstance(value, ast.UnaryOp):
        yield replace_node(line.file, value, _negative(line.file, value))
    for node in ast.walk(value):
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and not isinstance(node.operand, ast.Constant)
        ):
            yield replace_node(line.file, node, node_text(line.file, node.operand))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = node_text(line.file, node.left), node_text(line.file, node.right)
            is_sum = isinstance(node.right, ast.BinOp) and isinstance(node.right.op, (ast.Add, ast.Sub))
            sign = "-" if isinstance(node.op, ast.Add) else "+"
            yield replace_node(line.file, node, f"{left} {sign} {f'({right})' if is_sum else right}")


def _negative(file: str, node: ast.expr) -> str:
    is_sum = isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Mult, ast.Div, ast.MatMult))
    is_other = isinstance(node, (ast.IfExp, ast.Lambda, ast.Compare, ast.BoolOp))
    return f"-({node_text(file, node)})" if is_sum or is_other else f"-{node_text(file, node)}"
