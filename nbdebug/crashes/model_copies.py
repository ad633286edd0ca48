"""The call of the model that raised, and copies of the model with changed methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.meta import run_quietly
from nbdebug.finding import Edit
from nbdebug.source.edited_functions import covers, edited_function


@dataclass(frozen=True)
class ModelCall:
    """The arguments with which the model was called."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    frame: CrashFrame | None = None  # the user's frame with the call

    def run(self, model: nn.Module) -> Any:
        """Run a copy of the model on the meta device."""
        return run_quietly(model, self.args, self.kwargs)


def find_model_call(crash: Crash) -> ModelCall | None:
    """Return the outermost call of the model on the stack."""
    caller = None
    for frame in crash.frames:
        variables = frame.variables
        if variables.get("self") is crash.root and frame.function == "_call_impl" and crash.root is not None:
            return ModelCall(crash.root, tuple(variables["args"]), variables["kwargs"], caller)
        caller = frame if frame.is_user else caller
    return None


def apply_to_copy(model: nn.Module, edits: Sequence[Edit], *, has_modules: bool = False) -> bool:
    """Give the modules of a copy the methods as they read after some edits; False if an edit changes anything else.

    With ``has_modules``, edits of other code stand for modules that the copy already has.
    """
    applied: set[Edit] = set()
    for module in list(model.modules()):
        methods: dict[str, FunctionType] = {}
        for name, function in _methods(type(module)):
            own = [edit for edit in edits if covers(function, edit)]
            if own and name not in methods and name != "__init__":
                same_file = [edit for edit in edits if edit.file == own[0].file]
                changed = edited_function(function, same_file)
                if changed is None:
                    return False
                methods[name] = changed
                applied.update(own)
        if methods:
            module.__class__ = type(type(module).__name__, (type(module),), methods)
    return has_modules or applied == set(edits)


def _methods(kind: type) -> Iterator[tuple[str, FunctionType]]:
    for base in kind.__mro__:
        if not base.__module__.startswith("torch."):
            yield from ((name, value) for name, value in vars(base).items() if isinstance(value, FunctionType))
