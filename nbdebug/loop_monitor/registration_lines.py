"""The lines of the user's code at which parameters come into a module while a loop runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from nbdebug.source.location import SourceLine, get_calling_line

_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]
_MAX_PARAMETERS = 4096  # new parameters of a loop whose lines are kept


class RegistrationLines:
    """The latest line that stored each new parameter in a module, or a module that holds it in another module.

    A parameter of a new layer is stored first where the layer is created, and then where the layer comes into the
    model. Parameters are known by their id, without a reference: a later parameter with the same id is stored again.
    """

    def __init__(self) -> None:
        self.lines: dict[int, SourceLine] = {}

    def hooks(self, wrap_callback: _CallbackWrapper) -> AbstractContextManager[None]:
        """Return the hook on what modules store; ``wrap_callback`` wraps its callback."""
        return _observe_registrations(wrap_callback(self.record))

    def record(self, stored: Any) -> None:
        """Record the line that stores a parameter or a module."""
        parameters = [*stored.parameters()] if isinstance(stored, nn.Module) else [stored]
        line = get_calling_line(sys._getframe(1)) if parameters else None
        if line is not None:
            self.lines.update(dict.fromkeys(map(id, parameters), line))
        while len(self.lines) > _MAX_PARAMETERS:
            self.lines.pop(next(iter(self.lines)))

    def find_line(self, parameters: Iterable[Tensor]) -> SourceLine | None:
        """Return the line that stored the first of some parameters whose line is known."""
        return next((self.lines[id(parameter)] for parameter in parameters if id(parameter) in self.lines), None)


@contextmanager
def _observe_registrations(callback: Callable[[Any], None]) -> Iterator[None]:
    """Call back with each parameter and module that any module stores."""

    def observe(_: nn.Module, __: str, stored: Any) -> None:
        if stored is not None:
            callback(stored)

    handles = [
        register_module_parameter_registration_hook(observe),
        register_module_module_registration_hook(observe),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
