"""The user's lines that compute the factors of a schedule: of a function, a table, or a scheduler class."""

from __future__ import annotations

import ast
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from nbdebug.source.assignments import covering_statement, find_assignments, find_function, own_statements
from nbdebug.source.executed_lines import find_return
from nbdebug.source.location import SourceLine, get_code, is_library_code
from nbdebug.source.producers import executed_return, part_producer
from nbdebug.source.scopes import Expression, Scope, function_scope, user_function
from nbdebug.source.search import (
    SourceScope,
    assigned_names,
    assignment_targets,
    call_name,
    covers_line,
    file_nodes,
    read_names,
    syntax_tree,
)

_MAX_STEPS = 8
_NUMBER_CALLS = {"float", "item"}
_ROUNDING_CALLS = {"round", "int", "floor", "ceil", "trunc", "rint"}
_FLOAT_ARRAYS = {"zeros", "ones", "empty", "linspace", "geomspace", "logspace"}


def factor_line(scheduler: Any) -> SourceLine | None:
    """Return the line of the user's code that computes the factors of a schedule; None if there is none.

    Of a function it is what it returns at the present step, or what makes the table that it reads. Only functions are
    called, since an object may change with each call. A scheduler class of the user's own computes its factors alone if
    it has no option, or rounds to whole numbers; else it may be created with a wrong option.
    """
    if isinstance(scheduler, LambdaLR):
        return _line_of_function(scheduler)
    method = getattr(type(scheduler), "get_lr", None)
    if not isinstance(scheduler, LRScheduler) or not isinstance(method, FunctionType) or not user_function(method):
        return None
    returned = executed_return(method, scheduler)
    factor = _factor(returned) if returned else None
    return factor.line if factor and (_rounds(factor.node) or not _has_options(scheduler)) else None


def is_function(factors: Any) -> bool:
    """Check whether factors are a function, perhaps with some arguments, and not an object that may change."""
    return isinstance(factors.func if isinstance(factors, partial) else factors, FunctionType)


def _line_of_function(scheduler: LambdaLR) -> SourceLine | None:
    """Return the line that computes the factors of a function of the step, or of an object with ``__call__``."""
    factors = scheduler.lr_lambdas[0]
    own = user_function(factors)
    code = get_code(own[0] if own else factors)
    syntax = find_function(code) if code else None
    if own is None or code is None or syntax is None:
        return None
    returned = executed_return(*own) or _return_at_step(scheduler, Scope(code.co_filename), *own)
    if returned is None:
        line = _line_at_step(scheduler, code)
        return line or SourceLine(code.co_filename, syntax.lineno)
    made = _factor(returned)
    for _ in range(_MAX_STEPS):  # functions with several returns, which the function of the schedule calls
        call, callee = made.node, made.scope.callee(made.node) if isinstance(made.node, ast.Call) else None
        inner = _return_at_step(scheduler, made.scope, *callee, call) if callee and isinstance(call, ast.Call) else None
        if inner is None:
            break
        made = _factor(inner)
    return _table_line(made) or made.line


def _return_at_step(
    scheduler: LambdaLR, caller: Scope, function: FunctionType, owner: Any, call: ast.Call | None = None
) -> Expression | None:
    """Return what a function returns that runs when the factor of the present step is computed."""
    line = _line_at_step(scheduler, function.__code__)
    statement = covering_statement(line) if line else None
    if not isinstance(statement, ast.Return) or statement.value is None:
        return None
    scope = caller.entered(function, owner, call) if call else function_scope(function, owner)
    return Expression(scope, statement.value)


def _line_at_step(scheduler: LambdaLR, code: CodeType) -> SourceLine | None:
    """Return the line on which some code is left when the factor of the present step is computed."""
    factors = scheduler.lr_lambdas[0]
    return find_return(factors, code, scheduler.last_epoch) if is_function(factors) else None


def _factor(returned: Expression) -> Expression:
    """Return the expression that computes the factor of the rates that a function returns.

    That is an element of a list, without the initial rate, which the loop over the parameter groups gives.
    """
    loops: set[str] = set()
    for _ in range(_MAX_STEPS):
        returned = part_producer(returned, None)
        node = returned.node
        operand: ast.expr | None = None
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            operand, loops = node.elt, loops.union(*(assigned_names(loop.target) for loop in node.generators))
        elif isinstance(node, ast.Call) and call_name(node) in _NUMBER_CALLS:
            operand = node.args[0] if node.args else getattr(node.func, "value", None)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and loops:
            sides = [side for side in (node.left, node.right) if loops.isdisjoint(read_names(side))]
            operand = sides[0] if len(sides) == 1 else None
        if operand is None:
            return returned
        returned = Expression(returned.scope, operand)
    return returned


def _rounds(node: ast.expr) -> bool:
    """Check whether an expression rounds to a whole number; ``round`` with digits does not."""
    return any(
        (isinstance(part, ast.BinOp) and isinstance(part.op, ast.FloorDiv))
        or (isinstance(part, ast.Call) and call_name(part) in _ROUNDING_CALLS and len(part.args) == 1)
        for part in ast.walk(node)
    )


def _has_options(scheduler: Any) -> bool:
    """Check whether code of the user sets attributes of a scheduler, from which its rates may be made."""
    lines = (line for name in vars(scheduler) for line in find_assignments(scheduler, name))
    return any(not is_library_code(line.file) for line in lines)


def _table_line(made: Expression) -> SourceLine | None:
    """Return the line that makes the table from which factors are read; None if it is not certain.

    Of an array of whole numbers it is the one that gives it this dtype, else the only one that writes items, if any.
    """
    name = getattr(made.node.value, "id", "") if isinstance(made.node, ast.Subscript) else ""
    table = made.scope.variables.get(name)
    for scope in _scopes_around(made.line) if isinstance(table, (list, tuple, np.ndarray, torch.Tensor)) else ():
        statements = [node for node in own_statements(scope) if isinstance(node, (ast.Assign, ast.AnnAssign))]
        makers = [node for node in statements if name in [getattr(t, "id", "") for t in assignment_targets(node)]]
        if not makers:
            continue
        is_whole = _has_whole_dtype(table)
        makers = [node for node in makers if not (is_whole and _makes_floats(node.value))]
        writes = [] if is_whole else [node for node in own_statements(scope) if _writes_items(node, name)]
        lines = [SourceLine(made.scope.file, node.lineno, getattr(scope, "name", "")) for node in writes or makers]
        return lines[0] if len(lines) == 1 else None
    return None


def _scopes_around(line: SourceLine) -> list[SourceScope]:
    """Return the functions around a line and its file or cell, innermost first."""
    tree = syntax_tree(line.file)
    functions = [node for node in file_nodes(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [function for function in functions if covers_line(function, line.number)]
    return [*sorted(around, key=lambda function: -function.lineno), *([tree] if tree else [])]


def _has_whole_dtype(table: Any) -> bool:
    if isinstance(table, torch.Tensor):
        return not table.is_floating_point()
    return isinstance(table, np.ndarray) and table.dtype.kind in "iub"


def _makes_floats(value: ast.expr | None) -> bool:
    """Check whether a call makes an array of floating-point numbers, as it does by default."""
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in getattr(value, "keywords", ())}
    if "float" in options.get("dtype", ""):
        return True
    return call_name(value) in _FLOAT_ARRAYS and "dtype" not in options if value else False


def _writes_items(node: ast.stmt, name: str) -> bool:
    """Check whether a statement writes items of a variable, or appends to it."""
    owners = [target.value for target in assignment_targets(node) if isinstance(target, ast.Subscript)]
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call_name(call) in ("append", "extend"):
        owners = [call.func.value]
    return name in [getattr(owner, "id", "") for owner in owners]
