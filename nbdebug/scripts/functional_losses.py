"""Find the function of torch that a script calls as its loss, from the source of the functions that run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from torch.nn import functional as F

from nbdebug.setup.losses import FUNCTION_KINDS_BY_NAME
from nbdebug.source.assignments import find_function
from nbdebug.source.references import frame_variables
from nbdebug.source.search import call_name, syntax_tree, walk


def find_functional_loss(frames: Iterable[FrameType]) -> Callable[..., Any] | None:
    """Return the loss that the innermost of some functions calls first, with the keywords of that call.

    If none of them calls one, the loss is that of all such calls in their files, if they agree. Return None if there is
    none, or if its keywords are not literals or variables.
    """
    frames = list(frames)
    for frame in frames:
        function = find_function(frame.f_code)
        if function is not None and (calls := list(_loss_calls(function, _scope(frame)))):
            return _bind(calls[0], _scope(frame))
    for frame in frames:
        calls = list(_loss_calls(syntax_tree(frame.f_code.co_filename), _scope(frame)))
        if calls and len({_signature(call) for call in calls}) == 1:
            return _bind(calls[0], _scope(frame))
    return None


def _scope(frame: FrameType) -> Mapping[str, Any]:
    return {**frame.f_globals, **frame_variables(frame)}


def _loss_calls(tree: ast.AST | None, scope: Mapping[str, Any]) -> Iterator[ast.Call]:
    """Yield the calls of torch's own loss functions in a tree, in the order of the source."""
    calls = [node for node in walk(tree) if isinstance(node, ast.Call) and call_name(node) in FUNCTION_KINDS_BY_NAME]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    return (call for call in calls if _resolve(call.func, scope) is getattr(F, call_name(call)))


def _resolve(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """Return the value of a name, or of an attribute of a module; None for other expressions."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _resolve(node.value, scope)
    return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None


def _signature(call: ast.Call) -> str:
    return " ".join([call_name(call), *sorted(ast.unparse(keyword) for keyword in call.keywords)])


def _bind(call: ast.Call, scope: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Return the function of a call with its keywords; None if one of them cannot be read without running code."""
    options = {}
    for keyword in call.keywords:
        try:
            value = ast.literal_eval(keyword.value)
        except ValueError:
            value = scope.get(keyword.value.id) if isinstance(keyword.value, ast.Name) else None
        if keyword.arg is None or value is None:
            return None
        options[keyword.arg] = value
    function: Callable[..., Any] = getattr(F, call_name(call))
    return partial(function, **options) if options else function
