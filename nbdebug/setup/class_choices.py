"""The call of its class that made an object, of the calls that may have made it."""

from __future__ import annotations

import ast

from nbdebug.source.producers import returned_expressions
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_arguments, call_name


def creating_call(made: Expression, created: object) -> Expression | None:
    """Return the call of the class of an object that an expression is, or that a function in it returns; else None.

    Of the calls in several functions of which one runs, it is the only one whose constants the object holds.
    """
    name = type(created).__name__
    if call_name(made.node) == name:
        return made
    calls = [call for call in returned_expressions(made) if call_name(call.node) == name]
    held = [call for call in calls if len(calls) == 1 or _holds_constants(created, call.node)]
    return held[0] if len(held) == 1 else None


def _holds_constants(created: object, call: ast.expr) -> bool:
    """Check whether an object has attributes with all constants, one or more, that a call passes."""
    arguments = call_arguments(call) if isinstance(call, ast.Call) else []
    constants = [node.value for node in arguments if isinstance(node, ast.Constant)]
    values = [value for value in getattr(created, "__dict__", {}).values() if isinstance(value, (int, float, str))]
    return bool(constants) and all(constant in values for constant in constants)
