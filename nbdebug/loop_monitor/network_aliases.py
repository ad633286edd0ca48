"""The line that binds a second name to a network: the two are loaded into each other as if one were a copy."""

from __future__ import annotations

import ast
from types import FrameType

from torch import nn

from nbdebug.source.assignments import certain_line, covering_statement, find_assignments, last_assignment
from nbdebug.source.location import SourceLine, get_running_line, is_library_code
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.search import call_name, enclosing_scope

_MAX_CALLERS = 4  # functions that pass a network on
_MISSING = object()


def find_network_alias(frame: FrameType | None) -> SourceLine | None:
    """Return the line that binds a second name to a network if the running line loads its state into itself.

    If that network is created where it is bound, the one whose state is loaded may be the second name. Follows
    attributes into the class of their object, and parameters into the caller.
    """
    frames = [*user_frames(frame)][: _MAX_CALLERS + 1]
    statement = covering_statement(get_running_line(frames[0])) if frames else None
    loads = [node for node in ast.walk(statement) if call_name(node) == "load_state_dict"] if statement else []
    load = loads[0] if len(loads) == 1 else None
    if not isinstance(load, ast.Call) or not load.args or call_name(load.args[0]) != "state_dict":
        return None
    functions = [getattr(call, "func", None) for call in (load, load.args[0])]
    owners = [function.value for function in functions if isinstance(function, ast.Attribute)]
    if len({ast.unparse(owner) for owner in owners}) < 2:
        return None
    lines = (_binding_line(owner, frames) for owner in owners)
    return next((line for line in lines if line is not None and _binds_other_network(line)), None)


def _binding_line(expression: ast.expr, frames: list[FrameType]) -> SourceLine | None:
    """Return the line that binds a variable or an attribute which the innermost of some frames reads."""
    if not frames:
        return None
    line = get_running_line(frames[0])
    if isinstance(expression, ast.Attribute):
        owner = _value_of(expression.value, frames[0])
        assignments = find_assignments(owner, expression.attr)
        lines = {line for line in assignments if not is_library_code(line.file) and _binds_other_network(line)}
        return lines.pop() if len(lines) == 1 else None
    if not isinstance(expression, ast.Name):
        return None
    if assigned := last_assignment(line, expression.id, changes=False) or certain_line(line, expression.id):
        return assigned
    argument = _passed_argument(expression.id, frames)
    return _binding_line(argument, frames[1:]) if argument is not None else None


def _value_of(expression: ast.expr, frame: FrameType) -> object:
    """Return the object to which a variable or its stored attributes refer, without running the user's code."""
    if isinstance(expression, ast.Name):
        return {**frame.f_globals, **frame_variables(frame)}.get(expression.id, _MISSING)
    owner = _value_of(expression.value, frame) if isinstance(expression, ast.Attribute) else _MISSING
    attributes = getattr(owner, "__dict__", {})
    parts = {**(owner._modules if isinstance(owner, nn.Module) else {}), **attributes}
    return parts.get(expression.attr, _MISSING) if isinstance(expression, ast.Attribute) else _MISSING


def _passed_argument(name: str, frames: list[FrameType]) -> ast.expr | None:
    """Return the expression that the caller passes for a parameter of the function of the innermost frame."""
    code, caller = frames[0].f_code, frames[1] if len(frames) > 1 else None
    statement = covering_statement(get_running_line(caller)) if caller is not None else None
    calls = [node for node in ast.walk(statement) if call_name(node) == code.co_name] if statement else []
    function = enclosing_scope(get_running_line(frames[0]))
    if len(calls) != 1 or not isinstance(calls[0], ast.Call) or not isinstance(function, ast.FunctionDef):
        return None
    if any(isinstance(argument, ast.Starred) for argument in calls[0].args):
        return None
    parameters = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    is_method = isinstance(calls[0].func, ast.Attribute) and parameters[:1] == ["self"]
    passed = dict(zip(parameters[is_method:], calls[0].args, strict=False))
    return passed.get(name) or next((item.value for item in calls[0].keywords if item.arg == name), None)


def _binds_other_network(line: SourceLine) -> bool:
    """Check whether a line assigns a name or an attribute as it is, or what a method of modules returns: itself."""
    value = getattr(covering_statement(line), "value", None)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and hasattr(nn.Module, value.func.attr):
        value = value.func.value
    return isinstance(value, (ast.Name, ast.Attribute))
