"""The setup inside a trainer, by the adapter that an installed package registers for its class."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nbdebug.exceptions import SetupError, first_line
from nbdebug.trainer_setups.transformers import is_transformers_trainer, read_trainer
from nbdebug.validation import describe_type

_GROUP = "nbdebug.adapters"


def read_any_trainer(trainer: Any) -> dict[str, Any]:
    """Return the arguments of a Debugger for a trainer.

    An entry point of the group ``nbdebug.adapters`` has the path of the trainer's class as its name, and a function of
    the trainer that returns these arguments as its object. It is loaded only for an instance of that class. Raises
    SetupError for an object without an adapter, and for an adapter that cannot be loaded or returns something else.
    """
    adapters = list(entry_points(group=_GROUP))
    adapter = _nearest_adapter(trainer, adapters)
    if adapter is not None:
        return _read_by_adapter(trainer, adapter)
    if is_transformers_trainer(trainer):
        return read_trainer(trainer)
    choices = " or ".join(["a transformers.Trainer", *sorted(adapter.name for adapter in adapters)])
    raise SetupError(f"trainer is {describe_type(trainer)}; expected {choices}. Pass the trainer.")


def _nearest_adapter(trainer: Any, adapters: list[EntryPoint]) -> EntryPoint | None:
    """Return the adapter of the class of a trainer, or of its nearest base class; nothing is imported for it."""
    for base in type(trainer).__mro__:
        for adapter in adapters:
            module, _, name = adapter.name.rpartition(".")
            if getattr(sys.modules.get(module), name, None) is base:
                return adapter
    return None


def _read_by_adapter(trainer: Any, adapter: EntryPoint) -> dict[str, Any]:
    try:
        read = adapter.load()
    except (ImportError, AttributeError) as error:
        raise SetupError(
            f"adapter of {adapter.name} is {adapter.value} ({first_line(error)}); expected a function that can be "
            "imported. Update the package that registers it."
        ) from error
    arguments = read(trainer)
    if not isinstance(arguments, dict):
        raise SetupError(
            f"result of {adapter.value} is {describe_type(arguments)}; expected the arguments of a Debugger by name. "
            "Update the package that registers it."
        )
    return arguments
