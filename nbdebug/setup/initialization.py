"""The user's line that initialized a parameter, found by the values that it writes."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, search_files, syntax_tree

_TOLERANCE, _ERRORS = 0.02, 4.0  # relative; standard errors of a standard deviation
_DEFAULTS = {"normal_": (0.0, 1.0), "uniform_": (0.0, 1.0)}  # of torch.nn.init
_PARAMETERS = {"normal_": ("mean", "std"), "uniform_": ("a", "b")}


def initialization_line(setup: Setup, module: str, parameter: str = "weight") -> SourceLine | None:
    """Return the only line in the user's files that writes such values as a parameter has now.

    Those are calls of ``torch.nn.init``, methods of a tensor such as ``fill_``, and multiplications in place, whose
    numbers stand in the source and agree with the values. None if there is none, or more than one.
    """
    try:
        owner = setup.eager_model.get_submodule(module)
        values = getattr(owner, parameter).detach().float()
    except (AttributeError, ValueError):
        return None
    if not values.numel():
        return None
    lines = {
        SourceLine(file, node.lineno)
        for file in search_files(user_written_objects(setup))
        for node in _writing_nodes(file)
        if _agrees(node, values, owner, parameter)
    }
    return lines.pop() if len(lines) == 1 else None


def _writing_nodes(file: str) -> Iterator[ast.Call | ast.AugAssign]:
    tree = syntax_tree(file)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Call) and call_name(node).endswith("_")):
            yield node


def _agrees(node: ast.Call | ast.AugAssign, values: Tensor, owner: nn.Module, parameter: str) -> bool:
    """Check whether a statement or a call can have written some values."""
    if isinstance(node, ast.AugAssign):
        factor = _number(node.value) if isinstance(node.op, ast.Mult) else None
        return factor is not None and _is_scaled(values, factor, owner, parameter)
    name, numbers = call_name(node), [_number(argument) for argument in node.args]
    if name in ("zeros_", "zero_", "ones_"):
        return _is_constant(values, float(name == "ones_"))
    if name in ("constant_", "fill_"):
        return bool(numbers) and numbers[-1] is not None and _is_constant(values, numbers[-1])
    if name == "mul_":
        return len(numbers) == 1 and numbers[0] is not None and _is_scaled(values, numbers[0], owner, parameter)
    return name in _DEFAULTS and _agrees_with_distribution(node, name, values)


def _agrees_with_distribution(call: ast.Call, name: str, values: Tensor) -> bool:
    """Check whether values are a sample of the distribution that a call names."""
    keywords = {keyword.arg: _number(keyword.value) for keyword in call.keywords}
    owner = getattr(call.func, "value", None)
    is_function = owner is None or "init" in (getattr(owner, "attr", ""), getattr(owner, "id", ""))
    numbers = [_number(argument) for argument in call.args[is_function or len(call.args) == 3 :]]
    parameters = [
        keywords.get(parameter, numbers[index] if index < len(numbers) else _DEFAULTS[name][index])
        for index, parameter in enumerate(_PARAMETERS[name])
    ]
    first, second = parameters
    if first is None or second is None:
        return False
    if name == "uniform_":
        is_inside = first <= float(values.min()) and float(values.max()) <= second
        return is_inside and float(values.max() - values.min()) > 0.8 * (second - first)
    if second == 0:
        return _is_constant(values, first)
    error = second / math.sqrt(values.numel())
    return _is_close(float(values.std()), second, values.numel()) and abs(float(values.mean()) - first) < 4 * error


def _is_constant(values: Tensor, value: float) -> bool:
    return bool(torch.isclose(values, torch.tensor(value)).all())


def _is_scaled(values: Tensor, factor: float, owner: nn.Module, parameter: str) -> bool:
    """Check whether values are ``factor`` times as large as in torch's own initialization."""
    if not callable(getattr(owner, "reset_parameters", None)) or abs(factor) == 1:
        return False
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        fresh: Any = copy.deepcopy(owner)
        fresh.reset_parameters()
        usual = float(getattr(fresh, parameter).float().std())
    return usual > 0 and _is_close(float(values.std()), abs(factor) * usual, values.numel() // 2)


def _is_close(measured: float, expected: float, count: int) -> bool:
    """Check whether a standard deviation of some values agrees with the expected one."""
    return abs(measured - expected) <= expected * (_TOLERANCE + _ERRORS / math.sqrt(2 * max(count - 1, 1)))


def _number(node: ast.expr) -> float | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
