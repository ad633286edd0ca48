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
from nbdebug.source.assignments import part_producer
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, search_files, syntax_tree

_TOLERANCE, _ERRORS = 0.02, 4.0  # relative; standard errors of a standard deviation
_DEFAULTS = {"normal_": (0.0, 1.0), "uniform_": (0.0, 1.0)}  # of torch.nn.init
_PARAMETERS = {"normal_": ("mean", "std"), "uniform_": ("a", "b")}
_MOMENTS = {"zeros": (0.0, 0.0), "ones": (1.0, 0.0), "randn": (0.0, 1.0), "rand": (0.5, math.sqrt(1 / 12))}


def initialization_line(setup: Setup, module: str, parameter: str = "weight") -> SourceLine | None:
    """Return the only line in the user's files that writes such values as a parameter has now.

    Those are calls of ``torch.nn.init``, methods of a tensor such as ``fill_``, multiplications in place, and tensors
    that become parameters, whose numbers agree with the values. If there is none, a call that writes an unknown number
    counts for a parameter with one value. None if there is no such line, or more than one.
    """
    owner, values = _owner_and_values(setup, module, parameter)
    if owner is None or values is None:
        return None
    files = search_files(user_written_objects(setup))
    writes = [(file, node) for file in files for node in _writing_nodes(file)]
    lines = {SourceLine(file, node.lineno) for file, node in writes if _agrees(file, node, values, owner, parameter)}
    if not lines and _is_constant(values, float(values[0])):
        lines = {SourceLine(file, node.lineno) for file, node in writes if _writes_unknown_number(file, node)}
    return lines.pop() if len(lines) == 1 else None


def constant_line(setup: Setup, module: str, parameter: str) -> SourceLine | None:
    """Return the line that sets a parameter, or most of it, to one number other than 0 and 1; None for other values."""
    _, values = _owner_and_values(setup, module, parameter)
    number = float(values[0]) if values is not None else 0.0
    is_constant = values is not None and values.numel() > 1 and _is_constant(values, number)
    return initialization_line(setup, module, parameter) if is_constant and number not in (0.0, 1.0) else None


def _owner_and_values(setup: Setup, module: str, parameter: str) -> tuple[nn.Module | None, Tensor | None]:
    """Return the module that holds a parameter, and its values without those that training has changed."""
    try:
        owner = setup.eager_model.get_submodule(module)
        values = getattr(owner, parameter).detach().float().flatten()
    except (AttributeError, ValueError):
        return None, None
    return owner, _without_changed_values(values) if values.numel() else None


def _writing_nodes(file: str) -> Iterator[ast.Call | ast.AugAssign]:
    """Yield the calls and statements that write values in place, and those that create parameters or constants."""
    tree = syntax_tree(file)
    for node in ast.walk(tree) if tree else ():
        name = call_name(node)
        if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Call) and name.endswith("_")):
            yield node
        elif isinstance(node, ast.Call) and name == "Parameter" and node.args:
            producer = part_producer(file, node.args[0], None)
            yield producer if isinstance(producer, ast.Call) and call_name(producer) == "full" else node
        elif isinstance(node, ast.Call) and name == "full":
            yield node


def _agrees(file: str, node: ast.Call | ast.AugAssign, values: Tensor, owner: nn.Module, parameter: str) -> bool:
    """Check whether a statement or a call can have written some values."""
    if isinstance(node, ast.AugAssign):
        factor = _number(file, node.value) if isinstance(node.op, ast.Mult) else None
        return factor is not None and _is_scaled(values, factor, owner, parameter)
    name, numbers = call_name(node), [_number(file, argument) for argument in node.args]
    if name in ("zeros_", "zero_", "ones_"):
        return _is_constant(values, float(name == "ones_"))
    if name in ("constant_", "fill_"):
        return bool(numbers) and numbers[-1] is not None and _is_constant(values, numbers[-1])
    if name == "mul_":
        return len(numbers) == 1 and numbers[0] is not None and _is_scaled(values, numbers[0], owner, parameter)
    if name in ("Parameter", "full"):
        moments = _moments(file, node if name == "full" else node.args[0])
        return moments is not None and _has_moments(values, *moments)
    return name in _DEFAULTS and _agrees_with_distribution(file, node, name, values)


def _writes_unknown_number(file: str, node: ast.Call | ast.AugAssign) -> bool:
    """Check whether a call writes one number that the source does not tell."""
    is_constant = call_name(node) in ("constant_", "fill_")
    return isinstance(node, ast.Call) and is_constant and bool(node.args) and _number(file, node.args[-1]) is None


def _moments(file: str, node: ast.expr) -> tuple[float, float] | None:
    """Return the mean and the standard deviation of the tensor that an expression creates; None if it is another."""
    node = part_producer(file, node, None)
    name = call_name(node).removesuffix("_like")
    if isinstance(node, ast.Call) and name == "full":
        value = _number(file, node.args[-1]) if len(node.args) > 1 else None
        return (value, 0.0) if value is not None else None
    if not isinstance(node, ast.BinOp):
        return _MOMENTS.get(name)
    for tensor, factor in ((node.left, node.right), (node.right, node.left)):
        moments, number = _moments(file, tensor), _number(file, factor)
        if moments and number and isinstance(node.op, (ast.Mult, ast.Div)):
            scale = number if isinstance(node.op, ast.Mult) else 1 / number
            return moments[0] * scale, moments[1] * abs(scale)
    return None


def _has_moments(values: Tensor, mean: float, deviation: float) -> bool:
    """Check whether values are a sample with a mean and a standard deviation."""
    if deviation == 0:
        return _is_constant(values, mean)
    if values.numel() < 2:
        return False
    is_centered = abs(float(values.mean()) - mean) < _ERRORS * deviation / math.sqrt(values.numel())
    return is_centered and _is_close(float(values.std()), deviation, values.numel())


def _agrees_with_distribution(file: str, call: ast.Call, name: str, values: Tensor) -> bool:
    """Check whether values are a sample of the distribution that a call names."""
    keywords = {keyword.arg: _number(file, keyword.value) for keyword in call.keywords}
    owner = getattr(call.func, "value", None)
    is_function = owner is None or "init" in (getattr(owner, "attr", ""), getattr(owner, "id", ""))
    numbers = [_number(file, argument) for argument in call.args[is_function or len(call.args) == 3 :]]
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
    return _has_moments(values, first, second)


def _without_changed_values(values: Tensor) -> Tensor:
    """Return the number that most values are, as often as it occurs: training has changed the others; else all."""
    is_common = values == values.mode().values
    return values[is_common] if 2 * int(is_common.sum()) > values.numel() else values


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


def _number(file: str, node: ast.expr) -> float | None:
    """Return the number that an expression writes, or that its variable is assigned."""
    node = part_producer(file, node, None) if isinstance(node, ast.Name) else node
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
