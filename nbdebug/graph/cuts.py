"""Where gradients are cut off: the calls that take a tensor with a gradient and give something without one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

from nbdebug.finding import Where
from nbdebug.graph.reader import read
from nbdebug.graph.running import Running
from nbdebug.graph.source import Line, from_frame, where_of
from nbdebug.graph.switched_off import turned_off
from nbdebug.setup.trees import tensors

TO_PYTHON = {"item", "tolist", "numpy", "__float__", "__int__", "__array__", "__index__", "__complex__"}


@dataclass(frozen=True)
class Cut:
    """One call after which no gradient flows: its name, the graph it cut off, and its place.

    ``made`` is the tensor it gave, kept only for as long as the trace.
    """

    call: str
    behind: tuple[Any, ...]
    line: Line | None
    module: str | None
    made: Any

    def leaves(self) -> list[Tensor]:
        """The leaf tensors that the cut keeps gradients from."""
        found: list[Tensor] = []
        for end in self.behind:
            found += [end] if isinstance(end, Tensor) else read(end, []).leaves
        return found

    @property
    def culprit(self) -> str:
        """What to take out: the call, or what turned gradients off around it."""
        return "no_grad" if self.call.endswith("under no_grad") else self.call

    @property
    def where(self) -> Where:
        """The place of this call."""
        return where_of(self.line, self.module)


class CutWatch(TorchFunctionMode):
    """Records every cut while it is on, with the submodule that is running."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self.running = running
        self.cuts: list[Cut] = []
        self.fresh: dict[int, tuple[Tensor, Line | None]] = {}
        self.off: Line | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the call as it is, and notes it when a gradient ends there."""
        self.off = turned_off(func, args, sys._getframe(1)) or self.off
        given = tensors((args, kwargs or {}))
        before = [t for t in given if t.requires_grad]
        result = func(*args, **(kwargs or {}))
        after = tensors(result)
        made = [t for t in after if t.requires_grad and t.is_leaf and not any(t is known for known in before)]
        self.fresh.update({id(t): (t, from_frame(sys._getframe(1))) for t in made})
        flows = any((t.requires_grad and not t.is_leaf) or any(t is known for known in before) for t in after)
        if before and not flows and (after or getattr(func, "__name__", "") in TO_PYTHON):
            self.note(func, before, result)
        return result

    def note(self, func: Any, before: list[Tensor], result: Any) -> None:
        """Keeps one cut, with what it cut off."""
        behind = tuple(t.grad_fn if t.grad_fn is not None else t for t in before)
        name = call_name(func) if torch.is_grad_enabled() else f"{call_name(func)} under no_grad"
        line = None if torch.is_grad_enabled() else self.off
        self.cuts.append(Cut(name, behind, line or from_frame(sys._getframe(2)), self.running.innermost, result))


def call_name(func: Any) -> str:
    """How a user would write the call, such as ``detach`` or ``torch.argmax``."""
    name = getattr(func, "__name__", "call")
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", "data"))
    return (resolve_name(func) or name).removeprefix("torch.Tensor.").strip("_")
