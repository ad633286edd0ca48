"""States that a loop loads into a module, and which of them are the module's own tensors."""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.graph.search import calls_to, parsed
from nbdebug.graph.source import Line, caller


@dataclass(frozen=True)
class Reloads:
    """How often a state was loaded into the model or a part of it, and how often that was the live tensors themselves;
    the first such parameter, and the line that kept the state or, where that is not one line, loads it."""

    count: int = 0
    own: int = 0
    first: str = ""
    line: Line | None = None


class Reloading:
    """Counts them; ``owned`` are the identities of the parameters of the model."""

    def __init__(self, owned: Container[int]) -> None:
        self.owned, self.count, self.own = owned, 0, 0
        self.first = ""
        self.line: Line | None = None

    def heard(self, given: tuple[Any, Any, Any]) -> None:
        """A state is about to be loaded."""
        module, args, kwargs = given
        state = args[0] if args else kwargs.get("state_dict")
        names = {name: p for name, p in module.named_parameters() if id(p) in self.owned}
        if not names or not isinstance(state, Mapping):
            return
        self.count += 1
        same = [name for name, p in names.items() if is_same(state.get(name), p)]
        if len(same) == len(names):
            self.own += 1
            self.first = self.first or same[0]
            self.line = self.line or kept_at(caller(sys._getframe(1)))

    def seen(self) -> Reloads:
        """All that was counted."""
        return Reloads(self.count, self.own, self.first, self.line)


def is_same(given: Any, parameter: Tensor) -> bool:
    """Whether a tensor of a state lies where a parameter does."""
    return isinstance(given, Tensor) and given.numel() > 0 and given.data_ptr() == parameter.data_ptr()


def kept_at(load: Line | None) -> Line | None:
    """The one assignment of what ``state_dict()`` gives in the same file or cell; the line itself if not just one."""
    if load is None:
        return None
    made = [node for node in parsed(load.file) if isinstance(node, ast.Assign)]
    found = {node.lineno for node in made if any(calls_to("state_dict")(one) for one in ast.walk(node.value))}
    return Line(load.file, found.pop()) if len(found) == 1 else load
