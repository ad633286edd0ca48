"""Find the model, the loaders, the loss and the optimizers of a script at its first training pass."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FrameType, ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import loss as torch_losses
from torch.utils.data import DataLoader

from nbdebug.scripts.functional_losses import find_functional_loss
from nbdebug.setup.loaders import dataset_length
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.location import is_user_code
from nbdebug.source.references import frame_variables, user_frames

_HELD_OUT_NAME = re.compile(r"(^|_)(val|valid|validation|dev|eval|test)", re.IGNORECASE)
_LOSS_NAME = re.compile(r"loss|criterion|objective", re.IGNORECASE)
_MODEL_PARAMETERS = {"model", "net", "network", "module", "batch", "loader"}
NamedObject = tuple[str, Any]


@dataclass(frozen=True)
class TrainingObjects:
    """The objects of a training loop; ``train_loader`` is an empty tuple if its batches come from no DataLoader."""

    model: nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]
    train_loader: Any = ()
    val_loader: Any = None
    loss_fn: Callable[..., Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the classes and sizes of the objects, without those that are unknown."""
        values = {
            "model": type(self.model).__name__,
            "optimizers": [type(optimizer).__name__ for optimizer in self.optimizers],
            "loss": _name_loss(self.loss_fn) if self.loss_fn is not None else None,
            "training_samples": dataset_length(self.train_loader),
            "validation_samples": dataset_length(self.val_loader),
        }
        return {name: value for name, value in values.items() if value is not None}


def discover(
    model: nn.Module, optimizers: Iterable[torch.optim.Optimizer], drawn_loader: Any, frame: FrameType | None
) -> TrainingObjects:
    """Return the objects of the loop that calls a model, from the variables on the stack that ends in ``frame``.

    ``optimizers`` are all that exist, and ``drawn_loader`` is the one that has yielded the last batch, if any. A loss
    is taken from the variables if they hold exactly one, else from the calls of torch's own functions; the watch reads
    any other from the graph of the first step.
    """
    variables = list(_script_variables(frame))
    loaders = [(name, value) for name, value in variables if isinstance(value, DataLoader)]
    train_loader = drawn_loader if drawn_loader is not None else _find_training_loader(loaders)
    return TrainingObjects(
        model,
        tuple(optimizer for optimizer in optimizers if updates(optimizer, model)),
        () if train_loader is None else train_loader,
        _find_validation_loader([pair for pair in loaders if pair[1] is not train_loader]),
        _find_loss(variables, model) or find_functional_loss(user_frames(frame)),
    )


def _name_loss(loss: Any) -> str:
    function = loss.func if isinstance(loss, partial) else loss
    return getattr(function, "__name__", type(function).__name__)


def updates(optimizer: torch.optim.Optimizer, model: nn.Module) -> bool:
    """Return whether an optimizer has a parameter of a model."""
    own = {id(parameter) for parameter in model.parameters()}
    return any(id(parameter) in own for parameter in optimized_parameters(optimizer))


def is_held_out_name(name: str) -> bool:
    """Return whether a name is that of a loader that is not trained on."""
    return _HELD_OUT_NAME.search(name) is not None


def names_of(target: object, frame: FrameType | None) -> list[str]:
    """Return the names of an object in the variables on the stack that ends in ``frame``."""
    return [name for name, value in _script_variables(frame) if value is target]


def _script_variables(frame: FrameType | None) -> Iterator[NamedObject]:
    """Yield names and values of the user's variables, innermost function first, then those of its modules.

    Attributes of the user's own objects and values of dictionaries follow their owners.
    """
    frames = list(user_frames(frame))
    scopes = [frame_variables(user_frame) for user_frame in frames] + [user_frame.f_globals for user_frame in frames]
    for scope in scopes:
        for name, value in list(scope.items()):
            yield name, value
            for member_name, member in _members(value):
                yield member_name, member
                yield from _members(member) if type(member) is dict else ()


def _members(value: Any) -> Iterator[NamedObject]:
    """Yield the members of a dictionary, or the attributes of an object of a class of the user."""
    if type(value) is dict:
        yield from [(name, item) for name, item in value.items() if isinstance(name, str)]
    elif not isinstance(value, (type, ModuleType)) and hasattr(value, "__dict__") and _is_user_class(type(value)):
        yield from list(vars(value).items())
        if isinstance(value, nn.Module):
            yield from value.named_children()


def _is_user_class(kind: type) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(file, str) and is_user_code(file)


def _find_training_loader(loaders: list[NamedObject]) -> DataLoader[Any] | None:
    """Return the only loader whose name is not that of held-out data; None if there are several or none."""
    candidates = {id(value): value for name, value in loaders if not is_held_out_name(name)}
    return next(iter(candidates.values())) if len(candidates) == 1 else None


def _find_validation_loader(loaders: list[NamedObject]) -> DataLoader[Any] | None:
    """Return the loader that is named so, else one of test data, else the only one; None if there is no such loader."""
    held_out = [(name, value) for name, value in loaders if is_held_out_name(name)]
    held_out.sort(key=lambda pair: "test" in pair[0].lower())
    if held_out:
        return held_out[0][1]  # type: ignore[no-any-return]
    others = {id(value): value for _, value in loaders}
    return next(iter(others.values())) if len(others) == 1 else None


def _find_loss(variables: list[NamedObject], model: nn.Module) -> Callable[..., Any] | None:
    """Return the only loss among variables, called with output and target; None if there are several or none."""
    losses = {id(value): value for name, value in variables if value is not model and _is_loss(name, value)}
    return next(iter(losses.values())) if len(losses) == 1 else None


def _is_loss(name: str, value: Any) -> bool:
    if isinstance(value, nn.Module):
        is_named = _LOSS_NAME.search(name) or _LOSS_NAME.search(type(value).__name__)
        return isinstance(value, torch_losses._Loss) or bool(is_named and not list(value.parameters()))
    if not inspect.isfunction(value) or not _LOSS_NAME.search(name):
        return False
    parameters = inspect.signature(value).parameters.values()
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return len(required) == 2 and not _MODEL_PARAMETERS & {*required}
