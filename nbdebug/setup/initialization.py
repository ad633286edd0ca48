"""The user's line that initialized a parameter, found by the values that it writes."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.setup.written_parameters import is_init_function, writes_parameter
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression, file_scope
from nbdebug.source.search import call_name, search_files, syntax_tree

_TOLERANCE, _ERRORS = 0.02, 4.0  # relative; standard errors of a standard deviation
_DEFAULTS = {"normal_": (0.0, 1.0), "uniform_": (0.0, 1.0)}  # of torch.nn.init
_PARAMETERS = {"normal_": ("mean", "std"), "uniform_": ("a", "b")}
_CREATING = ("Parameter", "full")
_CONSTANTS = frozenset({"constant_", "fill_"})
_DISTRIBUTIONS = frozenset({"normal_", "uniform_", "trunc_normal_", "orthogonal_"}) | {
    *("xavier_normal_", "xavier_uniform_", "kaiming_normal_", "kaiming_uniform_")
}
_MOMENTS = {"zeros": (0.0, 0.0), "ones": (1.0, 0.0), "randn": (0.0, 1.0), "rand": (0.5, math.sqrt(1 / 12))}


def initialization_line(setup: Setup, module: str, parameter: str = "weight") -> SourceLine | None:
    """Return the only line in the user's files that writes such values as a parameter has now.

    Those are calls of ``torch.nn.init``, methods of a tensor such as ``fill_``, multiplications in place, and tensors
    that become parameters, whose numbers agree with the values; of several, those that name the parameter, as in
    ``self.head.weight``, also through a loop or a function, or else those that may write to any parameter; a line that
    does not name it does not count if torch's own initialization writes such values. If there is none, a call with a
    number that the source does not tell counts for a parameter with one value, and for one that is no sample of torch's
    own initialization; then the line that creates the parameter, if the source does not tell its values. None if there
    is no such line, or more than one.
    """
    owner, values = _owner_and_values(setup, module, parameter)
    if owner is None or values is None:
        return None
    files = search_files(user_written_objects(setup))
    writes = [(file, node) for file in files for node in _writing_nodes(file)]
    agreeing = [(file, node) for file, node in writes if _agrees(file, node, values, owner, parameter)]
    verdicts = [writes_parameter(file, node, setup.eager_model, module, parameter) for file, node in agreeing]
    named, possible = (
        [write for write, verdict in zip(agreeing, verdicts, strict=True) if verdict is wanted]
        for wanted in (True, None)
    )
    named = [write for write in named if call_name(write[1]) not in _CREATING] or named  # which a later call overwrites
    if not named and _is_usual(values, owner, parameter):
        return None
    lines = {SourceLine(file, node.lineno) for file, node in named or possible}
    if not lines:
        is_constant = _is_constant(values, float(values[0]))
        names = _CONSTANTS if is_constant else _DISTRIBUTIONS if _is_unusual(values, owner, parameter) else frozenset()
        lines = {SourceLine(file, node.lineno) for file, node in writes if _has_unknown_number(file, node, names)}
    if not lines:
        created = [(file, node) for file, node in writes if _creates_unknown_values(file, node)]
        path = (setup.eager_model, module, parameter)
        lines = {SourceLine(file, node.lineno) for file, node in created if writes_parameter(file, node, *path)}
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
            producer = _producer(file, node.args[0])
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
    if name in _CONSTANTS:
        return bool(numbers) and numbers[-1] is not None and _is_constant(values, numbers[-1])
    if name == "mul_":
        return len(numbers) == 1 and numbers[0] is not None and _is_scaled(values, numbers[0], owner, parameter)
    if name == "full" or (name in ("Parameter", "copy_") and node.args):
        moments = _moments(file, node if name == "full" else node.args[0])
        return moments is not None and _has_moments(values, *moments)
    if name in _DEFAULTS:
        return _agrees_with_distribution(file, node, name, values)
    return name in _DISTRIBUTIONS and _agrees_with_sample(file, node, values, getattr(owner, parameter))


def _agrees_with_sample(file: str, call: ast.Call, values: Tensor, parameter: Tensor) -> bool:
    """Check whether values spread like a sample that a function of ``torch.nn.init`` writes with some options."""
    arguments = [_literal(file, argument) for argument in call.args[1:]]
    options = {keyword.arg: _literal(file, keyword.value) for keyword in call.keywords if keyword.arg}
    if None in arguments or None in options.values():
        return False
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            sample = getattr(nn.init, call_name(call))(torch.empty_like(parameter), *arguments, **options)
        except (TypeError, ValueError, RuntimeError):
            return False
        return _is_close(float(values.std()), float(sample.float().std()), values.numel() // 2)


def _has_unknown_number(file: str, node: ast.Call | ast.AugAssign, names: Collection[str]) -> bool:
    """Check whether a call of one of some functions writes values by a number that the source does not tell."""
    if not isinstance(node, ast.Call) or call_name(node) not in names:
        return False
    numbers = [*node.args[is_init_function(node) :], *(keyword.value for keyword in node.keywords)]
    return any(_literal(file, number) is None for number in numbers)


def _creates_unknown_values(file: str, node: ast.Call | ast.AugAssign) -> bool:
    """Check whether a call creates a parameter from values that the source does not tell."""
    is_creation = isinstance(node, ast.Call) and call_name(node) == "Parameter" and bool(node.args)
    return is_creation and isinstance(node, ast.Call) and _moments(file, node.args[0]) is None


def _is_unusual(values: Tensor, owner: nn.Module, parameter: str) -> bool:
    """Check whether values have another standard deviation than in torch's own initialization."""
    return _usual_deviation(owner, parameter) is not None and not _is_usual(values, owner, parameter)


def _is_usual(values: Tensor, owner: nn.Module, parameter: str) -> bool:
    """Check whether values have the standard deviation of torch's own initialization."""
    usual = _usual_deviation(owner, parameter) if float(values.std()) else None
    return usual is not None and _is_close(float(values.std()), usual, values.numel() // 2)


def _moments(file: str, node: ast.expr) -> tuple[float, float] | None:
    """Return the mean and the standard deviation of the tensor that an expression creates; None if it is another."""
    node = _producer(file, node)
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
    has_tensor = is_init_function(call) or len(call.args) == 3
    numbers = [_number(file, argument) for argument in call.args[has_tensor:]]
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
    usual = _usual_deviation(owner, parameter) if abs(factor) != 1 else None
    return usual is not None and _is_close(float(values.std()), abs(factor) * usual, values.numel() // 2)


def _usual_deviation(owner: nn.Module, parameter: str) -> float | None:
    """Return the standard deviation in torch's own initialization; None if there is none."""
    if not callable(getattr(owner, "reset_parameters", None)):
        return None
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        fresh: Any = copy.deepcopy(owner)
        fresh.reset_parameters()
        return float(getattr(fresh, parameter).float().std()) or None


def _is_close(measured: float, expected: float, count: int) -> bool:
    """Check whether a standard deviation of some values agrees with the expected one."""
    return abs(measured - expected) <= expected * (_TOLERANCE + _ERRORS / math.sqrt(2 * max(count - 1, 1)))


def _number(file: str, node: ast.expr) -> float | None:
    """Return the number that an expression writes, or that its variable is assigned."""
    value = _literal(file, node)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _literal(file: str, node: ast.expr) -> Any:
    """Return the literal that an expression writes, or that its variable is assigned; None for any other."""
    try:
        return ast.literal_eval(_producer(file, node) if isinstance(node, ast.Name) else node)
    except (ValueError, TypeError):
        return None


def _producer(file: str, node: ast.expr) -> ast.expr:
    """Return the expression that makes a value."""
    return part_producer(Expression(file_scope(file), node), None).node
