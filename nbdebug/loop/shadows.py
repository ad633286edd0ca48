"""Averages of the model that a loop keeps in its variables, and whether their running statistics follow."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from nbdebug.graph.search import calls_to, parsed
from nbdebug.graph.source import is_library, is_machinery

ASKING = {"locals", "vars", "f_locals"}
VALUES, MOST = 64, 16  # values of a tensor, and tensors of a module, that tell whether it has changed


@dataclass(frozen=True)
class Shadow:
    """A copy of the model whose weights move, by the name of its variable, and its statistics that stand still."""

    name: str
    statistics: tuple[str, ...]


@dataclass
class Trace:
    """One copy as it was when it was seen first, and its statistics that stood still while it and the model moved."""

    module: weakref.ref[nn.Module]
    weights: list[Tensor]
    statistics: dict[str, Tensor]
    live: dict[str, Tensor]
    stale: tuple[str, ...] = ()


class Shadows:
    """Looks through the variables of the functions that the loop runs in."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.names = model, {name: p.shape for name, p in model.named_parameters()}
        self.running = any(is_statistic(name) for name, _ in model.named_buffers())
        self.traces: dict[str, Trace] = {}

    @torch.no_grad()
    def look(self, frame: FrameType | None) -> None:
        """Looks at all copies that stand in the variables of a stack."""
        if not self.running:
            return
        for name, module in variables(frame):
            known = self.traces.get(name)
            if known is not None and known.module() is module:
                known.stale = self.stale(known, module)
            elif self.is_copy(module):
                weights, statistics = list(module.parameters()), self.statistics(module)
                traced = (
                    [some(one) for one in weights[:MOST]],
                    some_of(statistics),
                    some_of(self.statistics(self.model)),
                )
                self.traces[name] = Trace(weakref.ref(module), *traced)

    def is_copy(self, module: nn.Module) -> bool:
        """Whether a module that is neither the model nor wraps it has the same parameters, and none with a gradient."""
        if isinstance(module, AveragedModel) or any(one is self.model for one in module.modules()):
            return False
        found = dict(module.named_parameters())
        return {name: p.shape for name, p in found.items()} == self.names and all(
            p.grad is None for p in found.values()
        )

    def statistics(self, module: nn.Module) -> dict[str, Tensor]:
        """Some of its running statistics."""
        return dict([pair for pair in module.named_buffers() if is_statistic(pair[0])][:MOST])

    def stale(self, known: Trace, module: nn.Module) -> tuple[str, ...]:
        """The statistics that stand still, if all do while the weights and the statistics of the model have moved."""
        now, live = some_of(self.statistics(module)), some_of(self.statistics(self.model))
        moved = any(not torch.equal(one, some(p)) for one, p in zip(known.weights, module.parameters(), strict=False))
        still = [name for name, one in known.statistics.items() if torch.equal(one, now.get(name, one))]
        behind = [name for name in still if name in live and not torch.equal(live[name], known.live[name])]
        return tuple(behind) if moved and behind and len(still) == len(known.statistics) else ()

    def seen(self, file: str | None) -> tuple[Shadow, ...]:
        """Those whose statistics stood still to the end, unless the same file or cell computes them afterwards."""
        if file is not None and any(calls_to("update_bn")(node) for node in parsed(file)):
            return ()
        return tuple(Shadow(name, one.stale) for name, one in self.traces.items() if one.stale)


def is_statistic(name: str) -> bool:
    """Whether a buffer is the running mean or variance of a normalization."""
    return name.rpartition(".")[2] in ("running_mean", "running_var")


def some(tensor: Tensor) -> Tensor:
    """A copy of its first values."""
    return tensor.detach().flatten()[:VALUES].clone()


def some_of(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same of several."""
    return {name: some(one) for name, one in tensors.items()}


def variables(frame: FrameType | None) -> Iterator[tuple[str, nn.Module]]:
    """The modules in the variables of the user's functions on a stack, and in the attributes of what stands there."""
    while frame is not None:
        if not is_library(frame.f_code.co_filename) and not is_machinery(frame.f_code.co_filename):
            for name, value in values(frame).items():
                if is_module(value):
                    yield name, value
                elif type(value).__module__ == frame.f_globals.get("__name__"):
                    inner = getattr(value, "__dict__", {})
                    yield from ((f"{name}.{key}", one) for key, one in inner.items() if is_module(one))
        frame = frame.f_back


def is_module(value: object) -> bool:
    """Whether a value is a module by its own type; a proxy is not asked, which could make it do something."""
    return issubclass(type(value), nn.Module)


def values(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame.

    Before Python 3.13 a function keeps them in one dictionary of its own, and they would live on in it. A function that
    asks for that dictionary itself is left alone, and so is all under a debugger, which works on it.
    """
    own = bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)
    traced = sys.gettrace() is not None or frame.f_trace is not None
    if own and (traced or ASKING & {*frame.f_code.co_names}):
        return {}
    found = frame.f_locals
    copied = dict(found)
    if own and type(found) is dict:
        found.clear()
    return copied
