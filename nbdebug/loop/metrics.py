"""Metrics that cannot measure what they claim, by what is written around the passes of a loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.graph.source import Line
from nbdebug.loop.modes import Passes
from nbdebug.loop.output import Output
from nbdebug.loop.reading import Scope, called, loaded, loops_around, may_be_skipped, scope_of, stored, subject

REDUCED = {"sum", "mean"}
BY_SHAPE = re.compile(r"shape|size|dim|class|binary|task|column", re.IGNORECASE)
SCORES = ("score", "accuracy", "error", "accuracy_fn")


@dataclass(frozen=True)
class Degenerate:
    """One such metric: what is wrong in words, what to write, and whether it only misleads about a sound run."""

    line: Line
    said: str
    fix: str
    measures: bool = True


def degenerate(passes: Passes) -> Iterator[Degenerate]:
    """All that is found in the functions that call the model."""
    for line in passes.calls:
        scope = scope_of(line)
        if scope is not None:
            if passes.shape is not None:
                output = Output(scope, frozenset(one.number for one in passes.calls if one.file == line.file))
                yield from one_column(scope, line, output, passes.shape)
                yield from unequal(scope, line, output)
            yield from of_itself(scope, line)
            yield from stale(scope, line)
            yield from alias(scope, line)


def one_column(scope: Scope, line: Line, output: Output, shape: tuple[int, ...]) -> Iterator[Degenerate]:
    """The largest of one value, which is always the first."""
    for node in ast.walk(scope):
        if not isinstance(node, ast.Call) or called(node) != "argmax":
            continue
        axis, about = axis_of(node), subject(node)
        if axis is None or not -len(shape) <= axis < len(shape) or shape[axis] != 1 or about is None:
            continue
        chosen = is_chosen_by_shape(scope, node) or may_be_skipped(scope, node, ast.unparse(about), line.number)
        if output.is_held_by(about) and not chosen:
            yield Degenerate(
                Line(line.file, node.lineno),
                f"argmax over an axis of one value: the output has shape {shape}, so each prediction is class 0",
                "predicted = (output.squeeze(1) > 0).long()   # of a logit; > 0.5 of a probability",
            )


def is_chosen_by_shape(scope: Scope, node: ast.Call) -> bool:
    """Whether a call is a branch of a choice by the shape or the kind of the output, as ``if output.shape[1] > 1``."""
    choices = [one for one in ast.walk(scope) if isinstance(one, (ast.If, ast.IfExp)) and one.orelse]
    around = [one for one in choices if any(inner is node for inner in ast.walk(one))]
    return any(BY_SHAPE.search(ast.unparse(one.test)) for one in around)


def axis_of(call: ast.Call) -> int | None:
    """The axis that a call of ``argmax`` names, if it is written out."""
    given = [word.value for word in call.keywords if word.arg in ("dim", "axis")]
    place = 0 if subject(call) is not (call.args[0] if call.args else None) else 1
    given += call.args[place : place + 1]
    try:
        value = ast.literal_eval(given[0]) if given else None
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def unequal(scope: Scope, line: Line, output: Output) -> Iterator[Degenerate]:
    """A real-valued output that is compared for being equal."""
    for node in comparisons(scope):
        sides = (node.left, node.comparators[0])
        if any(output.is_held_by(side) for side in sides):
            yield Degenerate(
                Line(line.file, node.lineno),
                "the output itself, real numbers, is compared for being equal to the target, which it never is",
                "predicted = output.argmax(1)   # of several logits; (output > 0) of one",
            )


def of_itself(scope: Scope, line: Line) -> Iterator[Degenerate]:
    """A score of a tensor against itself."""
    pairs = [(node, node.left, node.comparators[0]) for node in comparisons(scope)]
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and called(node).endswith(SCORES) and len(node.args) > 1:
            pairs.append((node, node.args[0], node.args[1]))  # type: ignore[arg-type]
    for node, left, right in pairs:
        if isinstance(left, (ast.Name, ast.Attribute)) and ast.dump(left) == ast.dump(right):
            yield Degenerate(
                Line(line.file, node.lineno),
                f"{ast.unparse(left)} is compared with itself, which is always equal",
                "(predicted == target).float().mean()",
            )


def comparisons(scope: Scope) -> Iterator[ast.Compare]:
    """Every ``==`` of two things that is summed up or averaged, as an accuracy is."""
    reduced = [node for node in ast.walk(scope) if isinstance(node, ast.Call) and called(node) in REDUCED]
    inside = {id(one): one for call in reduced for one in chain(subject(call))}
    return (one for one in inside.values() if len(one.ops) == 1 and isinstance(one.ops[0], ast.Eq))


def chain(node: ast.AST | None) -> Iterator[ast.Compare]:
    """The comparison that a chain of methods is called on, if it is one."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = subject(node) if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Compare):
        yield node


def stale(scope: Scope, line: Line) -> Iterator[Degenerate]:
    """A value of the training loop that a loop without a backward pass adds up again and again."""
    loops = loops_around(scope, line.number)
    if not loops or any(called(node) == "backward" for node in ast.walk(loops[0])):
        return
    own = stored(loops[0])
    trained = {name for node in ast.walk(scope) if called(node) == "backward" for name in loaded(node)}
    elsewhere = {name for node in ast.walk(scope) if isinstance(node, ast.For) for name in stored(node)} - own
    for node in ast.walk(loops[0]):
        if isinstance(node, ast.AugAssign) and (found := loaded(node.value) & trained & elsewhere):
            name = found.pop()
            yield Degenerate(
                Line(line.file, node.lineno),
                f"{name} is not computed in this loop: the last one of training is added up again and again",
                f"{name} = loss_fn(model(x), y)   # in this loop, before it is added",
            )


def alias(scope: Scope, line: Line) -> Iterator[Degenerate]:
    """A weight that is kept without a copy and compared with itself later."""
    kept: dict[str, str] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and is_weight(node.value):
            kept[node.targets[0].id] = ast.dump(node.value)
    for node in ast.walk(scope):
        sides = operands(node)
        for one, other in (sides, sides[::-1]):
            if isinstance(one, ast.Name) and other is not None and kept.get(one.id) == ast.dump(other):
                yield Degenerate(
                    Line(line.file, node.lineno),  # type: ignore[attr-defined]
                    f"{one.id} is the same memory as {ast.unparse(other)}, not what it was before: they never differ",
                    f"{one.id} = {ast.unparse(other)}.clone()",
                    measures=False,
                )


def operands(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """The two sides of a difference or of a comparison."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return node.left, node.right
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return node.left, node.comparators[0]
    return None, None


def is_weight(value: ast.expr) -> bool:
    """Whether an expression is a weight or bias of something, as data or as it is."""
    while isinstance(value, ast.Attribute) and value.attr == "data":
        value = value.value
    if isinstance(value, ast.Call) and called(value) == "detach" and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return isinstance(value, ast.Attribute) and value.attr in ("weight", "bias")
