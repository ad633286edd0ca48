"""Runs a tool of a new Debugger, whose options are among those of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, TypeVar

from nbdebug.debugger import Debugger

DEBUGGER_OPTIONS = {
    name: parameter.default
    for name, parameter in signature(Debugger).parameters.items()
    if parameter.kind is Parameter.KEYWORD_ONLY
}
_AnyResult = TypeVar("_AnyResult")


def run_tool(tool: Callable[..., _AnyResult], arguments: Mapping[str, Any]) -> _AnyResult:
    """Run a tool of a new Debugger; the arguments of the call are those of either."""
    names = signature(tool).parameters.keys() & arguments.keys() - DEBUGGER_OPTIONS.keys()
    debugger = Debugger(**{name: arguments[name] for name in signature(Debugger).parameters})
    return tool(debugger, **{name: arguments[name] for name in names})
