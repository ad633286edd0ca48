"""The calls of a forward pass in order, each with its place: what an intervention is followed through."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nbdebug.finding import Where
from nbdebug.graph.running import Running
from nbdebug.graph.source import Line, from_frame, where_of
from nbdebug.setup.trees import tensors


@dataclass(frozen=True)
class Call:
    """One call of a torch function: its name, the tensors that went in and came out, its options and its place."""

    name: str
    given: tuple[Tensor, ...]
    made: tuple[Tensor, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: str | None
    line: Line | None

    @property
    def where(self) -> Where:
        """The submodule that ran, and the user's line."""
        return where_of(self.line, self.module)


class CallWatch(TorchFunctionMode):
    """Hands every call to ``heard`` while it is on; what torch's own functions call inside is theirs and not heard."""

    def __init__(self, running: Running, heard: Callable[[Call], None]) -> None:
        super().__init__()
        self.running, self.heard = running, heard

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the call as it is, then tells of it."""
        result = func(*args, **(kwargs or {}))
        if made := tensors(result):
            name, line = getattr(func, "__name__", "call"), from_frame(sys._getframe(1))
            module = self.running.innermost or None
            given = tuple(tensors((args, kwargs or {})))
            self.heard(Call(name.strip("_"), given, tuple(made), args, kwargs or {}, module, line))
        return result


@contextmanager
def calls(model: nn.Module, heard: Callable[[Call], None]) -> Iterator[None]:
    """A block in which ``heard`` gets every torch call of ``model``, with the path of the submodule that made it."""
    running = Running()
    with running.inside(model), CallWatch(running, heard):
        yield
