"""How the user's code calls the model and the loss: with values as they come, or with changed ones."""

from __future__ import annotations

import ast
from typing import Any

import torch

from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import certain_line, covering_statement
from nbdebug.source.creation import find_creation
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import SHAPE_CHANGES, part_producer
from nbdebug.source.references import find_names
from nbdebug.source.scopes import Expression, file_scope
from nbdebug.source.search import (
    call_name,
    enclosing_loops,
    enclosing_scope,
    find_lines,
    matches_call,
    read_names,
    search_files,
)

_DTYPE_CHANGES = {"float", "double", "half", "bfloat16", "long", "int", "short", "bool", "type", "type_as"}
_VALUE_CHANGES = {"sigmoid", "softmax", "log_softmax", "logsigmoid", "exp", "log", "log1p", "tanh", "relu", "clamp"}
_VALUE_CHANGES |= {"argmax", "one_hot", "normalize", "where", "masked_select", "permute", "transpose", "movedim"}
_CHANGES = SHAPE_CHANGES | _DTYPE_CHANGES | _VALUE_CHANGES
_MAX_STEPS = 5  # of assignments, back from an argument
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Compare)


def _call_names(called: Any, setup: Setup) -> set[str]:
    """Return the names under which the user's code may call a function or module of the setup."""
    creation = find_creation(called, search_files(user_written_objects(setup)))
    names = creation.names if creation is not None and creation.names else find_names(called, None)
    return {*names, getattr(called, "__name__", "")} - {""}


def call_lines(called: Any, setup: Setup) -> set[SourceLine]:
    """Return the lines of the user's code that call a function or module of the setup."""
    names = _call_names(called, setup)
    return find_lines(lambda node: any(matches_call(name)(node) for name in names), user_written_objects(setup))


def changed_arguments(called: Any, setup: Setup) -> frozenset[int] | None:
    """Return the positions of the arguments that each call in the user's code changes first; None without a call.

    A change is one of the shape, the dtype or the values, such as ``target.float()``, ``output[:, 0]`` or
    ``inputs / 255``, in the call, in the assignment of the variable that it passes, or in what a function returns.
    """
    names = _call_names(called, setup)
    changes = [
        frozenset(position for position in range(len(call.args)) if _is_changed(call, position, line))
        for line in call_lines(called, setup)
        for call in ast.walk(covering_statement(line) or ast.Pass())
        if isinstance(call, ast.Call) and call.lineno == line.number and any(matches_call(name)(call) for name in names)
    ]
    return frozenset.intersection(*changes) if changes else None


def _is_changed(call: ast.Call, position: int, line: SourceLine) -> bool:
    """Return whether the expression that makes an argument changes another value, or is an input of the first one."""
    node = _maker(call.args[position], line)
    if position:
        first = _maker(call.args[0], line)
        inputs = {ast.dump(argument) for argument in first.args} if isinstance(first, ast.Call) else set()
        if ast.dump(call.args[position]) in inputs:
            return True  # as in an autoencoder, whose target is not that of the loader
        if _is_made_without_target(call.args[0], call.args[position], line):
            return True  # such as noise that the model predicts
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):  # a function of the user's, by what it returns
        node = part_producer(Expression(file_scope(line.file), call.args[position]), None).node
    while isinstance(node, ast.Call):
        function = node.func
        if getattr(function, "attr", getattr(function, "id", "")) in _CHANGES or _casts(node):
            return True
        if not isinstance(function, ast.Attribute):
            return False
        node = function.value  # as of ``outputs.float().to(device)``
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, (ast.Tuple, ast.Slice))
    return isinstance(node, _ARITHMETIC)


def _is_made_without_target(output: ast.expr, argument: ast.expr, line: SourceLine) -> bool:
    """Return whether an output and an argument in a loop ``for x, y in loader`` are both computed from ``x`` alone."""
    scope = enclosing_scope(line)
    loops = [loop for loop in enclosing_loops(scope, line.number) if _unpacks(loop)] if scope else []
    if not loops:
        return False
    first, *others = loops[0].target.elts  # type: ignore[attr-defined]
    inputs, targets = (
        {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} for node in (first, ast.Tuple(others))
    )
    sources = [_sources(node, inputs | targets, line) for node in (output, argument)]
    return all(source & inputs for source in sources) and not sources[1] & targets


def _sources(node: ast.expr, ends: set[str], line: SourceLine) -> set[str]:
    """Return the variables from which an expression is computed, back to those in ``ends``."""
    names, reached = read_names(node), set[str]()
    for _ in range(_MAX_STEPS):
        reached |= names
        makers = [covering_statement(made) for name in names - ends if (made := certain_line(line, name))]
        names = {name for maker in makers if maker is not None for name in read_names(maker)} - reached
    return reached


def _unpacks(loop: ast.For) -> bool:
    """Check for a loop over pairs, other than those of ``enumerate`` and ``zip``."""
    is_numbered = call_name(loop.iter) in ("enumerate", "zip")
    return isinstance(loop.target, ast.Tuple) and len(loop.target.elts) > 1 and not is_numbered


def _maker(argument: ast.expr, line: SourceLine) -> ast.expr:
    return part_producer(Expression(file_scope(line.file), argument), None, enters=lambda _: False).node


def _casts(call: ast.Call) -> bool:
    """Return whether a call of ``to`` names a dtype of torch."""
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "dtype")]
    is_to = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
    names = [value.attr for value in values if isinstance(value, ast.Attribute)]
    return is_to and any(isinstance(getattr(torch, name, None), torch.dtype) for name in names)
