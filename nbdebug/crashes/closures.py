"""The function that an optimizer such as LBFGS evaluates, made of the statements before its step."""

from __future__ import annotations

import ast
import linecache

from nbdebug.crashes.crash import Crash
from nbdebug.finding import Edit
from nbdebug.source.search import call_name, enclosing_scope, read_names


def closure_edits(crash: Crash) -> tuple[Edit, ...]:
    """Return the edit that puts the computation of the loss before a step into a function, and passes it to the step.

    Empty if ``zero_grad``, the loss and ``backward`` are not in the block of the step, one statement after the other.
    """
    frame = crash.own
    statement = frame.statement if frame is not None else None
    if frame is None or not isinstance(statement, ast.Expr) or crash.call is not statement.value:
        return ()
    block = _block_of(enclosing_scope(frame.line), statement)
    before = block[: block.index(statement)] if block else []
    first = next((i for i, node in enumerate(before) if _is_call(node, "zero_grad")), None)
    backward = next((node for node in before if _is_call(node, "backward")), None)
    if first is None or backward is None or not isinstance(backward, ast.Expr):
        return ()
    owner = getattr(getattr(backward.value, "func", None), "value", None)
    if not isinstance(owner, ast.Name) or any(hasattr(node, "body") for node in before[first:]):
        return ()
    after = block[block.index(statement) + 1 :]
    result = f"{owner.id} = " if any(owner.id in read_names(node) for node in after) else ""
    start, end = before[first], before[-1]
    numbers = range(start.lineno, (end.end_lineno or end.lineno) + 1)
    lines = [linecache.getline(frame.file, number) for number in numbers]
    indentation = " " * start.col_offset
    body = "".join(f"    {line}" if line.strip() else line for line in lines)
    text = f"def closure():\n{body}{indentation}    return {owner.id}\n\n"
    text += f"{indentation}{result}{ast.unparse(crash.call.func)}(closure)"
    line = linecache.getline(frame.file, statement.end_lineno or statement.lineno)
    column, end_column = start.col_offset, len(line.rstrip("\n"))
    return (Edit(frame.file, start.lineno, column, statement.end_lineno or statement.lineno, end_column, text),)


def _block_of(scope: ast.AST | None, statement: ast.stmt) -> list[ast.stmt]:
    for node in ast.walk(scope) if scope is not None else ():
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and statement in block:
                return block
    return []


def _is_call(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Expr) and call_name(statement.value) == name
