"""Metrics of a loop over batches of which only the last batch's is left, by what is written around its passes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.graph.source import Line
from nbdebug.loop.averages import MEAN, WHOLE, Around, Averaged
from nbdebug.loop.reading import Scope, called, loaded, loops_around, scope_of, stored

NUMBERS = {"item", "float", "sum", "mean"}


def lasts(line: Line) -> Iterator[Averaged]:
    """The numbers that the innermost loop around a pass computes of each batch anew, and that are read only after it.

    Nothing of a loop that trains, or that may end before the last batch.
    """
    scope = scope_of(line)
    loops = loops_around(scope, line.number) if scope is not None else []
    if scope is None or not loops:
        return
    loop = loops[0]
    ends = any(isinstance(node, (ast.Break, ast.Return, ast.Yield)) for node in ast.walk(loop))
    if ends or any(called(node) == "backward" for node in ast.walk(loop)):
        return
    around = Around(scope, loop)
    batch, kept = stored(loop.target), accumulated(loop)
    for target, value in assignments(loop):
        parts = around.resolved(value)
        names = {one.id for one in parts if isinstance(one, ast.Name)}
        known = is_number(value) and batch & names and not (kept | {target.id}) & names
        if known and target.id not in read(loop) and once(loop, target.id) and is_read_after(scope, loop, target.id):
            yield Averaged(Line(line.file, target.lineno), "last", target.id)


def assignments(loop: ast.For) -> Iterator[tuple[ast.Name, ast.expr]]:
    """The names that a loop gives a value to, each with its expression, also of several at once."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = zip(target.elts, value.elts, strict=False) if several else [(target, value)]  # type: ignore[attr-defined]
            yield from ((one, given) for one, given in pairs if isinstance(one, ast.Name))


def accumulated(loop: ast.For) -> set[str]:
    """The names that a loop adds to or changes in place."""
    found = {name for node in ast.walk(loop) if isinstance(node, ast.AugAssign) for name in stored(node.target)}
    for node in ast.walk(loop):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found |= loaded(node.value.func)
    return found


def is_number(value: ast.expr) -> bool:
    """Whether an expression is written as one number of a batch: a sum, a mean, a share, a loss or a score."""
    if isinstance(value, ast.BinOp):
        return is_number(value.left)
    if isinstance(value, ast.IfExp) or not isinstance(value, ast.Call):
        return False
    name = called(value)
    with_axis = name in ("sum", "mean") and bool(value.args or value.keywords)
    return (name in NUMBERS or bool(MEAN.fullmatch(name) or WHOLE.fullmatch(name))) and not with_axis


def read(loop: ast.For) -> set[str]:
    """The names that are read in a loop."""
    return {name for node in loop.body for name in loaded(node)}


def once(loop: ast.For, name: str) -> bool:
    """Whether a loop gives a name one value each time, whatever is chosen."""
    stores = [node for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    chosen = [node for node in loop.body if isinstance(node, (ast.If, ast.Try, ast.For, ast.While))]
    return [node.id for node in stores].count(name) == 1 and not any(name in stored(one) for one in chosen)


def is_read_after(scope: Scope, loop: ast.For, name: str) -> bool:
    """Whether the next that happens to a name after a loop, as far down as the function goes, is that it is read."""
    end = loop.end_lineno or loop.lineno
    uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name and node.lineno > end]
    first = min((node.lineno for node in uses), default=0)
    return bool(uses) and all(isinstance(node.ctx, ast.Load) for node in uses if node.lineno == first)
