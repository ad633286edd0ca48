"""Edits that keep operations away from the values at which their gradients are infinite."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, call_subject

_SHIFTED = {"sqrt", "rsqrt", "norm", "vector_norm", "reciprocal"}
_POSITIVE = {"log", "log2", "log10"}
_LIMITED = {
    **dict.fromkeys(("acos", "arccos", "asin", "arcsin", "atanh"), "clamp(-1 + 1e-6, 1 - 1e-6)"),
    **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), "clamp(max=30)"),
}


def safer_operations(line: SourceLine) -> tuple[Edit, ...]:
    """Return the edits of the roots, logarithms, divisions, powers and inverse functions in a statement."""
    statement = covering_statement(line)
    nodes = list(ast.walk(statement)) if statement is not None else []
    edits = [edit for node in nodes for edit in _edits(line.file, node)]
    replaced = [edit for edit in edits if (edit.line, edit.column) != (edit.end_line, edit.end_column)]
    if replaced:
        return tuple(replaced[:1])
    places = dict.fromkeys((edit.line, edit.column) for edit in edits)
    return tuple(_join_insertions([edit for edit in edits if (edit.line, edit.column) == place]) for place in places)


def _join_insertions(edits: list[Edit]) -> Edit:
    """Return one insertion for several at a place, which belong to expressions from the outermost inwards."""
    texts = [edit.text for edit in edits]
    opening = [text for text in texts if text == "("]
    closing = [text for text in texts if text != "("]
    return replace(edits[0], text="".join([*reversed(closing), *opening]))


def _edits(file: str, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not isinstance(node.right, ast.Constant):
        yield from _insert_around(file, node.right, "(", " + 1e-8)")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _is_root(node.right):
        yield from _insert_around(file, node.left, "(", " + 1e-8)")
    elif isinstance(node, ast.Call) and (subject := call_subject(node)) is not None:
        name = call_name(node)
        if name in _SHIFTED:
            yield from _insert_around(file, subject, "(", " + 1e-8)")
        elif name in _POSITIVE:
            yield from _insert_around(file, subject, "(", ").clamp(min=1e-8)")
        elif name in _LIMITED:
            yield from _insert_around(file, subject, "(", f").{_LIMITED[name]}")
        elif name == "std":
            options = [node_text(file, part) for part in (*node.args, *node.keywords) if part is not subject]
            options = [option for option in options if "unbiased" not in option and "correction" not in option]
            arguments = ", ".join([*options, "unbiased=False"])
            yield replace_node(file, node, f"({node_text(file, subject)}.var({arguments}) + 1e-8).sqrt()")
        elif name == "pow" and node.args and _is_root(node.args[-1]):
            yield from _insert_around(file, subject, "(", " + 1e-8)")


def _is_root(exponent: ast.expr) -> bool:
    """Return whether an exponent is a number below 1."""
    try:
        value = eval(compile(ast.Expression(exponent), "<exponent>", "eval"), {"__builtins__": {}})
    except Exception:
        return False
    return isinstance(value, (int, float)) and value < 1


def _insert_around(file: str, node: ast.expr, before: str, after: str) -> tuple[Edit, ...]:
    """Return the insertion of text before and after an expression."""
    whole = replace_node(file, node, "")
    if after.startswith(").") and isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        before, after = "", after[1:]
    return (
        Edit(file, whole.line, whole.column, whole.line, whole.column, before),
        Edit(file, whole.end_line, whole.end_column, whole.end_line, whole.end_column, after),
    )
