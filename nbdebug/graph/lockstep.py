"""Two runs of a model side by side: the first operation where a change spreads to what it should leave alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nbdebug.finding import Where
from nbdebug.graph.cuts import call_name
from nbdebug.graph.source import Line, from_frame
from nbdebug.graph.tracing import Trace, attached
from nbdebug.setup.trees import tensors

TOLERANCE = 1e-5


@dataclass(frozen=True)
class Call:
    """One operation: its name, the tensors it was given and those it made, and its place."""

    name: str
    given: tuple[Tensor, ...]
    made: tuple[Tensor, ...]
    line: Line | None
    module: str | None

    @property
    def where(self) -> Where:
        """The place of this operation."""
        return self.line.where(self.module) if self.line else Where(module=self.module)


class CallWatch(TorchFunctionMode):
    """Records every operation while it is on."""

    def __init__(self, module: Callable[[], str | None]) -> None:
        super().__init__()
        self.module = module
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the call as it is, and keeps what went in and what came out."""
        given = tuple(t.detach() for t in tensors((args, kwargs or {})))
        result = func(*args, **(kwargs or {}))
        if made := tuple(t.detach() for t in tensors(result)):
            line = from_frame(sys._getframe(1))
            self.calls.append(Call(call_name(func), given, made, line, self.module() or None))
        return result


def recorded(model: nn.Module, run: Callable[[], Any], seed: int = 0) -> tuple[Any, list[Call]]:
    """What ``run`` gives, with the operations that ``model`` was made of; random numbers are those of ``seed``."""
    trace = Trace()
    watch = CallWatch(lambda: trace.running[-1] if trace.running else None)
    handles = [] if isinstance(model, torch.jit.ScriptModule) else attached(model, trace)
    torch.manual_seed(seed)
    try:
        with torch.enable_grad(), watch:
            return run(), watch.calls
    finally:
        for handle in handles:
            handle.remove()


def changes(one: Tensor, other: Tensor) -> Tensor:
    """Where two tensors differ by more than rounding."""
    if not one.is_floating_point():
        return one != other
    scale = one.abs().max().clamp_min(1e-12) if one.numel() else 1.0
    return (one - other).abs() > TOLERANCE * scale


def reaches(one: Tensor, other: Tensor, size: int, kept: Sequence[int]) -> bool | None:
    """Whether a change reached the positions ``kept`` on every axis of ``size``; None where no axis has that size."""
    if one.shape != other.shape or not one.dim():
        return None
    differs = changes(one, other)
    if not bool(differs.any()):
        return False
    axes = [axis for axis in range(one.dim()) if one.shape[axis] == size]
    rows = torch.as_tensor(list(kept), device=one.device)
    return all(bool(differs.index_select(axis, rows).any()) for axis in axes) if axes else None


def spreading(clean: list[Call], changed: list[Call], size: int, kept: Sequence[int]) -> Call | None:
    """The first operation that makes a change reach ``kept`` which had not reached what it was given."""
    if [one.name for one in clean] != [one.name for one in changed]:
        return None
    for one, other in zip(clean, changed, strict=True):
        out = [reaches(a, b, size, kept) for a, b in zip(one.made, other.made, strict=False)]
        into = [reaches(a, b, size, kept) for a, b in zip(one.given, other.given, strict=False)]
        if any(out) and not any(into):
            return one
    return None
