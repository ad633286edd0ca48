"""Statements of the user's code that are removed, moved, put into a block or taken out of one."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterator
from dataclasses import replace

from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import insert_after_statement, insert_before, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    assigned_names,
    call_name,
    covers_line,
    enclosing_loops,
    enclosing_scope,
    innermost_loop,
    read_names,
    syntax_tree,
)

_INDENTATION = "    "


def remove_statement(file: str, statement: ast.stmt) -> Edit:
    """Return the removal of a statement with its lines; the only one of its block becomes ``pass``."""
    tree = syntax_tree(file)
    blocks = [*_blocks(tree)] if tree else []
    end = statement.end_lineno or statement.lineno
    shares_line = any(statement in block and any(_overlaps(other, statement) for other in block) for block in blocks)
    if [statement] in blocks or shares_line or _follows_header(file, statement):
        return replace_node(file, statement, "pass")
    return Edit(file, statement.lineno, 0, end + 1, 0, "")


def _overlaps(other: object, statement: ast.stmt) -> bool:
    if other is statement or not isinstance(other, ast.stmt):
        return False
    return other.lineno <= (statement.end_lineno or statement.lineno) and statement.lineno <= (
        other.end_lineno or other.lineno
    )


def _follows_header(file: str, statement: ast.stmt) -> bool:
    """Return whether other code stands before a statement on its line: ``if late: step()``."""
    return bool(linecache.getline(file, statement.lineno).encode()[: statement.col_offset].strip())


def move_before(line: SourceLine | None, target: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits that move a one-line statement before another one of the same function."""
    if line is None or target is None or line.file != target.file:
        return ()
    moved, anchor = covering_statement(line), covering_statement(target)
    if moved is None or anchor is None or moved is anchor or moved.lineno != moved.end_lineno:
        return ()
    if enclosing_scope(line) is not enclosing_scope(target) or _overlaps(anchor, moved):
        return ()
    if _follows_header(line.file, anchor) or hasattr(moved, "body"):
        return ()
    return insert_before(line.file, anchor.lineno, ast.unparse(moved)), remove_statement(line.file, moved)


def move_before_in_block(line: SourceLine | None, target: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits that move a statement before an earlier one of the same block.

    Return () if one of those that it passes assigns a variable that it reads.
    """
    moved, anchor = (covering_statement(item) if item else None for item in (line, target))
    scope = enclosing_scope(target) if target else None
    block = next((block for block in _blocks(scope) if moved in block and anchor in block), []) if scope else []
    passed = block[block.index(anchor) : block.index(moved)] if moved and anchor and block else []
    if moved is None or not passed or any(read_names(moved) & assigned_names(statement) for statement in passed):
        return ()
    return move_before(line, target)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements in a node."""
    for child in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(child, name, None)
            if isinstance(block, list):
                yield block


def move_before_loops(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits that move a one-line statement before the outermost loop around it."""
    scope = enclosing_scope(line) if line else None
    moved = covering_statement(line) if line else None
    loops = enclosing_loops(scope, line.number) if scope and line else []
    if line is None or moved is None or not loops or moved.lineno != moved.end_lineno or hasattr(moved, "body"):
        return ()
    return insert_before(line.file, loops[-1].lineno, ast.unparse(moved)), remove_statement(line.file, moved)


def collect_in_loop(line: SourceLine | None, start: str = "") -> tuple[Edit, ...]:
    """Return the change by which a loop uses the values of all its rounds.

    An assignment ``total = term`` in a loop, to a variable that the function assigns before the loop, becomes a sum. So
    does one to a variable that it does not assign there if a ``start`` for it is given. A ``return`` in a loop moves
    behind it.
    """
    scope = enclosing_scope(line) if line else None
    statement = covering_statement(line) if line else None
    loops = enclosing_loops(scope, line.number) if scope and line else []
    if line is None or scope is None or statement is None or not loops:
        return ()
    if isinstance(statement, ast.Return):
        returned = insert_after_statement(line.file, loops[-1], ast.unparse(statement))
        return returned, remove_statement(line.file, statement)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
        return ()
    before = [node for node in ast.walk(scope) if isinstance(node, ast.Assign) and node.lineno < loops[-1].lineno]
    is_started = any(ast.unparse(node.targets[0]) == target.id for node in before)
    reads = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    if not (is_started or start) or target.id in reads:
        return ()
    needs_parentheses = not isinstance(statement.value, (ast.BinOp, ast.Call, ast.Name, ast.Attribute, ast.Subscript))
    template = f"{target.id} + ({{}})" if needs_parentheses else f"{target.id} + {{}}"
    summed = wrap_node(line.file, statement.value, template)
    return (summed,) if is_started else (insert_before(line.file, loops[-1].lineno, f"{target.id} = {start}"), summed)


def remove_calls_in_loop(line: SourceLine | None, names: Collection[str]) -> tuple[Edit, ...]:
    """Return the removal of the statements in the innermost loop around a line that only call some names."""
    scope = enclosing_scope(line) if line else None
    loop = innermost_loop(scope, line.number) if scope and line else None
    if line is None or loop is None:
        return ()
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Expr) and call_name(node.value) in names]
    return tuple(remove_statement(line.file, call) for call in calls)


def put_loop_in_block(line: SourceLine | None, header: str, without: Collection[SourceLine] = ()) -> tuple[Edit, ...]:
    """Return the edits that put the innermost loop around a line into a block, such as ``with torch.no_grad():``.

    If that loop contains a line of ``without``, the statement on the line is put into the block instead. Return ()
    without such a loop, and where a text of several lines has its indentation as a part of it.
    """
    scope = enclosing_scope(line) if line else None
    loop = innermost_loop(scope, line.number) if scope and line else None
    if line is None or loop is None:
        return ()
    excluded = [other.number for other in without if other.file == line.file]
    candidates = [node for node in (loop, covering_statement(line)) if node is not None]
    block = next((node for node in candidates if not any(covers_line(node, number) for number in excluded)), None)
    if block is None or any(_is_long_text(node) for node in ast.walk(block)):
        return ()
    return _put_in_block(line.file, block, header)


def _put_in_block(file: str, statement: ast.stmt, header: str) -> tuple[Edit, ...]:
    """Return the edits that write a header before a statement and indent its lines."""
    numbers = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    indented = [
        Edit(file, number, 0, number, 0, _INDENTATION) for number in numbers if linecache.getline(file, number).strip()
    ]
    first = linecache.getline(file, statement.lineno)
    margin = first[: len(first) - len(first.lstrip())]
    head = Edit(file, statement.lineno, 0, statement.lineno, 0, f"{margin}{header}\n{_INDENTATION}")
    return head, *indented[1:]


def enclosing_context(line: SourceLine | None, names: Collection[str]) -> SourceLine | None:
    """Return the line of the innermost ``with`` or decorator around a line that calls one of some names."""
    tree = syntax_tree(line.file) if line else None
    if line is None or tree is None:
        return None
    numbers = [context.lineno for node, context in _contexts(tree, names) if covers_line(node, line.number)]
    return replace(line, number=max(numbers)) if numbers else None


def remove_context(line: SourceLine | None, names: Collection[str]) -> tuple[Edit, ...]:
    """Return the removal of a ``with`` statement or a decorator on a line that only calls one of some names.

    The statements in the block of ``with`` stay. Return () where a text of several lines has its indentation as a part
    of it.
    """
    tree = syntax_tree(line.file) if line else None
    if line is None or tree is None:
        return ()
    for node, context in _contexts(tree, names):
        if context.lineno == line.number and isinstance(node, ast.With):
            return _take_out_of_block(line.file, node)
        if context.lineno == line.number:
            return (Edit(line.file, line.number, 0, line.number + 1, 0, ""),)
    return ()


def _contexts(tree: ast.AST, names: Collection[str]) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """Yield each block and function with the only call of its ``with``, or a decorator, of one of some names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and len(node.items) == 1 and node.items[0].optional_vars is None:
            yield from ((node, item.context_expr) for item in node.items if call_name(item.context_expr) in names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if call_name(decorator) in names or getattr(decorator, "attr", "") in names:
                    yield node, decorator


def _take_out_of_block(file: str, block: ast.With) -> tuple[Edit, ...]:
    """Return the edits that remove the header of a block and move its lines to the left."""
    first, columns = block.body[0].lineno, block.body[0].col_offset - block.col_offset
    if first == block.lineno or any(_is_long_text(node) for node in ast.walk(block)):
        return ()
    numbers = range(first + 1, (block.end_lineno or first) + 1)
    moved = [
        Edit(file, number, 0, number, columns, "") for number in numbers if linecache.getline(file, number).strip()
    ]
    return Edit(file, block.lineno, 0, first, columns, ""), *moved


def _is_long_text(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    return is_text and getattr(node, "lineno", 0) != getattr(node, "end_lineno", 0)
