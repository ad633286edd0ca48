"""Replace functions of ``numpy.random`` while code of the user runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from nbdebug.source.interpreter_events import observe_calls
from nbdebug.source.location import is_user_code


@contextmanager
def replace_random_functions(observe: Callable[[FrameType, str, Any], None], **functions: Any) -> Iterator[None]:
    """Replace functions of ``numpy.random`` by name, and pass each event of ``sys.setprofile`` to a function.

    A module of the user's that imports a function by its name has it replaced when one of its own functions is called
    for the first time. Everything is as before after the block.
    """
    originals = {name: getattr(np.random, name) for name in functions}
    namespaces = _Namespaces([(originals[name], functions[name]) for name in functions])

    def replace_and_observe(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and is_user_code(frame.f_code.co_filename):
            namespaces.replace_in(frame.f_globals)
        observe(frame, event, argument)

    try:
        namespaces.replace_in(vars(np.random))
        with observe_calls(replace_and_observe):
            yield
    finally:
        namespaces.restore()


class _Namespaces:
    """Replaces values in the variables of modules."""

    def __init__(self, replacements: list[tuple[Any, Any]]) -> None:
        self._replacements = replacements
        self._known_ids: set[int] = set()
        self._replaced: list[tuple[dict[str, Any], str, Any, Any]] = []

    def replace_in(self, variables: dict[str, Any]) -> None:
        """Replace the values in a module that was not seen before."""
        if id(variables) in self._known_ids:
            return
        self._known_ids.add(id(variables))
        for name, value in [*variables.items()]:
            for original, replacement in self._replacements:
                if value is original:
                    self._replaced.append((variables, name, original, replacement))
                    variables[name] = replacement

    def restore(self) -> None:
        """Set the values that were replaced, except those that the user's code has set itself since then."""
        for variables, name, original, replacement in self._replaced:
            if variables.get(name) is replacement:
                variables[name] = original
