"""The line that passes, or lacks, the option by which the datasets of two splits read samples differently."""

from __future__ import annotations

import ast
import copy
import inspect
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from nbdebug.preserve import seed_all
from nbdebug.setup.batch import TARGET_KEYS
from nbdebug.setup.sample_functions import nested_datasets
from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.setup.split_transforms import constructor_option
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import find_assignments
from nbdebug.source.creation import Creation
from nbdebug.source.location import SourceLine
from nbdebug.source.search import find_unique_line

_SAMPLES = 64  # with 32, the means of classes vary as much as swapped channels differ
_MAX_RATIO = 0.5  # of the distance between the splits that may be left with the option of the other split
_FLOOR = 0.01  # of the spread of all values; the spread of a feature is not compared below it
_Moments = tuple[Tensor, Tensor]


def find_differing_option(setup: Setup, position: int = 0) -> SourceLine | None:
    """Return the line that gives the validation dataset a flag, a number or a function that changes its units.

    With the option of the training dataset, a copy of it must read inputs (position 0) or targets (-1) with nearly the
    units of training. It is the argument, the call that lacks it, or the line that stores another value. None if one
    split alone is augmented: such an option means training or evaluation, and a statement that it chooses is wrong.
    """
    datasets = [
        [*nested_datasets(getattr(loader, "dataset", None))] for loader in (setup.train_loader, setup.val_loader)
    ]
    for train, val in zip(*datasets, strict=False):
        if type(train) is not type(val) or not hasattr(train, "__dict__"):
            continue
        try:
            attribute = _unit_attribute(train, val, position)
        except Exception:  # the data are the user's, and a finding is worth more than its line
            return None
        if attribute:
            return _option_line(setup, train, val, attribute)
    return None


def _unit_attribute(train: Any, val: Any, position: int) -> str:
    """Return the only attribute that gives validation samples the units of training samples; "" if there is none."""
    names = [name for name in vars(train) if _are_different_options(*(vars(part).get(name) for part in (train, val)))]
    if not names or _is_random(train, position) is not _is_random(val, position):
        return ""
    expected = _moments(train, position)
    limit = _MAX_RATIO * _distance(_moments(val, position), expected)
    restoring = [
        name for name in names if _distance(_moments(_exchanged(train, val, name), position), expected) < limit
    ]
    return restoring[0] if len(restoring) == 1 else ""


def _are_different_options(first: Any, second: Any) -> bool:
    """Return whether two values are flags, numbers, texts or functions, or lists of functions, that differ."""
    if isinstance(first, MethodType) and isinstance(second, MethodType):
        return first.__func__ is not second.__func__
    return all(map(_is_option, (first, second))) and first is not second and first != second


def _is_option(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(callable, value))
    return value is None or isinstance(value, (bool, int, float, str)) or callable(value)


def _exchanged(train: Any, val: Any, name: str) -> Any:
    """Return a copy of the validation dataset with one attribute of the training dataset."""
    exchanged = copy.copy(val)
    exchanged.__dict__[name] = vars(train)[name]
    return exchanged


def _read(dataset: Any, position: int, seed: int = 0) -> list[Tensor]:
    """Read the inputs or targets of some samples, which are spread over a dataset."""
    seed_all(seed)
    indices = range(0, len(dataset), max(len(dataset) // _SAMPLES, 1))[:_SAMPLES]
    return [torch.as_tensor(_part(dataset[index], position)).double() for index in indices]


def _part(sample: Any, position: int) -> Any:
    if isinstance(sample, dict):
        return next(value for key, value in sample.items() if (key in TARGET_KEYS) is (position == -1))
    return sample[position] if isinstance(sample, (tuple, list)) else sample


def _is_random(dataset: Any, position: int) -> bool:
    reads = (_read(dataset, position, seed) for seed in (0, 1))
    return any(not torch.equal(first, second) for first, second in zip(*reads, strict=True))


def _moments(dataset: Any, position: int) -> _Moments:
    """Return mean and deviation of each feature; those of all values if the samples have different sizes."""
    parts = _read(dataset, position)
    has_one_shape = len({part.shape for part in parts}) == 1
    values = torch.stack(parts) if has_one_shape else torch.cat([part.flatten() for part in parts])
    return values.mean(0), values.std(0)


def _distance(moments: _Moments, expected: _Moments) -> float:
    """Return how far means and deviations are from those expected, in units of the latter."""
    (mean, deviation), (expected_mean, expected_deviation) = moments, expected
    if mean.shape != expected_mean.shape:
        return float("inf")
    unit = expected_deviation.square().mean().sqrt().clamp(min=1e-12)
    ratio = (deviation + _FLOOR * unit) / (expected_deviation + _FLOOR * unit)
    return float(((mean - expected_mean).abs() / unit + ratio.log().abs()).mean())


def _option_line(setup: Setup, train: Any, val: Any, attribute: str) -> SourceLine | None:
    """Return the line of the argument that a dataset keeps in an attribute, else that of the call or assignment."""
    if later := find_unique_line(partial(_sets_later, attribute), user_written_objects(setup)):
        return later
    option = constructor_option(val, attribute)
    if not option:
        lines = find_assignments(val, attribute)
        return lines[0] if len(lines) == 1 else None
    creation = find_setup_creation(setup, val, is_excluded=partial(_passes, train, option, vars(train)[attribute]))
    if creation is None:
        return None
    argument = creation.argument(val, option)
    if isinstance(argument, ast.Constant) and argument.value != vars(val)[attribute]:
        return None
    return SourceLine(creation.file, argument.lineno) if argument is not None else creation.line


def _sets_later(attribute: str, node: ast.AST) -> bool:
    """Match an assignment to an attribute of an object by another name than that of a method's own."""
    is_set = isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
    return is_set and getattr(getattr(node, "value", None), "id", "self") != "self"


def _passes(dataset: Any, option: str, value: Any, creation: Creation) -> bool:
    """Return whether a call passes a value for an option, or leaves it at this default, as far as its text tells."""
    argument = creation.argument(dataset, option)
    if argument is None:
        default = inspect.signature(type(dataset)).parameters[option].default
        return type(default) is type(value) and bool(default == value)
    if isinstance(argument, ast.Constant):
        return type(argument.value) is type(value) and argument.value == value
    if isinstance(argument, ast.Lambda):
        return getattr(getattr(value, "__code__", None), "co_firstlineno", 0) == argument.lineno
    return str(getattr(argument, "attr", getattr(argument, "id", ""))) == getattr(value, "__name__", None)
