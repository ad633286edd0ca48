"""Find results that a function computes and does not use: calls without effect, and variables that are overwritten."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import torch
from torch.nn import functional as F

from nbdebug.finding import Edit
from nbdebug.formatting import join_names
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.scopes import Scope, file_scope
from nbdebug.source.search import assigned_names, assignment_targets, call_name, enclosing_scope, read_names


def find_unused_result(line: SourceLine) -> SourceLine | None:
    """Return the only line of the function around a line at which the result of a module or of torch is lost.

    That is a call such as ``self.position(x)`` or ``F.relu(x)`` whose result is not stored, or the assignment that
    overwrites a variable before anything reads it. The caller knows that a result is lost, so a branch that would use
    it and return has not run. None if there is no such line, or more than one.
    """
    function = enclosing_scope(line)
    if function is None or isinstance(function, ast.Module):
        return None
    scope = file_scope(line.file)
    numbers = {number for block in _blocks(function) for number in _losing_lines(block, scope)}
    return SourceLine(line.file, numbers.pop(), function.name) if len(numbers) == 1 else None


def unread_results(line: SourceLine) -> list[str]:
    """Return the names in which the assignment at a line stores a result, if nothing reads any of them.

    A name that is assigned again before anything reads it is not read. Names such as ``_`` say that they are not.
    """
    statement, function = covering_statement(line), enclosing_scope(line)
    if not isinstance(statement, ast.Assign) or function is None or isinstance(function, ast.Module):
        return []
    targets = [target for target in assignment_targets(statement) if not _is_ignored(target)]
    blocks = [block for block in _blocks(function) if any(other.lineno == statement.lineno for other in block)]
    following = [other for other in blocks[-1] if other.lineno > statement.lineno] if blocks else []
    names, read = [target.id for target in targets if isinstance(target, ast.Name)], read_names(function)
    is_unread = all(name not in read or _overwriting_statement(name, following) for name in names)
    return names if is_unread and len(names) == len(targets) else []


def describe_unread(module: str, names: Sequence[str], *, is_state: bool) -> tuple[str, str]:
    """Return the cause and the fix for the result of a module that is stored in names which nothing reads."""
    stored, joined = (join_names([part.format(name) for name in names]) for part in ("`{}`", "{}"))
    fix = f"# compute the loss from {joined} too, or remove {module}"
    if is_state:
        fix = f"# pass {joined} on, such as to the recurrent layer that continues from it"
    return f"The result of {module} is stored in {stored}, and nothing reads it.", fix


def _is_ignored(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and not target.id.strip("_")


def find_discarded_call(line: SourceLine) -> ast.Call | None:
    """Return the call that is a whole statement, so that it discards its result, as in ``x.add(y)``; None if none."""
    statement = covering_statement(line)
    return statement.value if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None


def store_result(line: SourceLine) -> str:
    """Return the statement that stores the lost result of a method of a variable, as in ``x = x.add(y)``; else ""."""
    call, function = find_discarded_call(line), enclosing_scope(line)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    if call is None or not isinstance(owner, ast.Name) or not isinstance(function, (ast.FunctionDef, ast.Lambda)):
        return ""
    variables = assigned_names(function) | {argument.arg for argument in function.args.args} - {"self"}
    return f"{owner.id} = {node_text(line.file, call)}" if owner.id in variables else ""


def keep_result(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change by which a line stores the result that it discards; empty if it discards none."""
    call = find_discarded_call(line) if line else None
    text = store_result(line) if line else ""
    return (replace_node(line.file, call, text),) if line and call and text else ()


def _blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements in a function."""
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _losing_lines(block: Sequence[ast.stmt], scope: Scope) -> Iterator[int]:
    """Yield the lines of a block at which a result is lost."""
    for index, statement in enumerate(block):
        if isinstance(statement, ast.Expr) and (
            _calls_own_module(statement.value) or _calls_activation(statement.value, scope)
        ):
            yield statement.lineno
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _calls_own_module(statement.value):
            target = statement.targets[0]
            if isinstance(target, ast.Name) and (later := _overwriting_statement(target.id, block[index + 1 :])):
                yield later.lineno


def _calls_own_module(value: ast.expr) -> bool:
    """Check whether an expression calls an attribute of ``self`` that does not change its argument in place."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return isinstance(value, ast.Call) and any(
        isinstance(call.func, ast.Attribute)
        and getattr(call.func.value, "id", "") == "self"
        and not call_name(call).endswith("_")
        for call in calls
    )


def _calls_activation(value: ast.expr, scope: Scope) -> bool:
    """Check whether an expression calls a function of ``torch.nn.functional`` or a tensor operation, not in place."""
    function = scope.value(value.func) if isinstance(value, ast.Call) and value.args else None
    is_in_place = isinstance(value, ast.Call) and any(keyword.arg == "inplace" for keyword in value.keywords)
    name = getattr(function, "__name__", "")
    is_operation = function is not None and function in (getattr(F, name, None), getattr(torch, name, None))
    return is_operation and not is_in_place and not name.endswith("_")


def _overwriting_statement(name: str, following: Sequence[ast.stmt]) -> ast.stmt | None:
    """Return the statement that assigns a variable again before anything reads it; None if something may read it."""
    for statement in following:
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return) and not statement.orelse:
            continue
        if name in read_names(statement) or isinstance(statement, ast.AugAssign):
            return None
        if name in assigned_names(statement):
            return statement if isinstance(statement, ast.Assign) else None
    return None
