"""A pass whose loss or gradient was not finite, frozen before anything was written over it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from nbdebug.graph.origins import Origin
from nbdebug.graph.source import Line
from nbdebug.replay.buffers import Buffers
from nbdebug.replay.passes import Pass
from nbdebug.setup import Setup

Phase = Literal["loss", "gradient"]
PLAIN = (Tensor, nn.Parameter)  # those of other types may be spread over processes
Copies = list[tuple[Tensor, Tensor]]  # the user's tensor, and what it held


@dataclass
class Incident:
    """One step at which the loss or the gradient was not finite.

    ``passes`` led to it, the last one last; ``weights`` are None where they were not kept. ``largest`` are the largest
    absolute weights before training and now, ``blame`` is what the graph of the loss told, ``line`` that of the
    backward pass or the step; of the last ``unheard`` steps only the loss was kept.
    """

    step: int
    phase: Phase
    loss: float | None
    passes: list[Pass]
    weights: Copies | None
    modes: list[tuple[nn.Module, bool]]
    largest: tuple[float, float] = (math.nan, math.nan)
    blame: Origin | None = None
    line: Line | None = None
    notes: list[str] = field(default_factory=list)
    unheard: int = 0

    def put_back(self) -> None:
        """Writes the frozen weights and modes into the user's objects; to be called inside a Preserve."""
        with torch.no_grad():
            for tensor, value in self.weights or ():
                tensor.copy_(value)
        for module, training in self.modes:
            module.training = training


def states(setup: Setup) -> list[Tensor]:
    """Every parameter and buffer of the model and of a loss that is a module, each once."""
    owners = [setup.eager, *([setup.loss_fn] if isinstance(setup.loss_fn, nn.Module) else [])]
    found = [one for owner in owners for one in (*owner.parameters(), *owner.buffers())]
    return list({id(one): one for one in found}.values())


def modes(setup: Setup) -> list[tuple[nn.Module, bool]]:
    """Every module with the mode that it is in."""
    return [(one, one.training) for one in setup.eager.modules() if not isinstance(one, torch.jit.ScriptModule)]


def copies(tensors: Iterable[Tensor], buffers: Buffers) -> Copies:
    """Some tensors, each with a copy of it; of a buffer that the pass wrote to, the one from before."""
    pairs = ((one, buffers.before(one)) for one in tensors)
    return [(one, one.detach().clone() if before is None else before.clone()) for one, before in pairs]


def weigh(tensors: Sequence[Tensor]) -> int:
    """How many bytes some tensors take."""
    return sum(one.numel() * one.element_size() for one in tensors)


def largest(tensors: Iterable[Tensor]) -> float:
    """The largest absolute value in some tensors."""
    plain = [p.detach() for p in tensors if type(p) in PLAIN and p.layout == torch.strided and p.numel()]
    with torch.no_grad():
        return max((float(part) for part in torch._foreach_norm(plain, math.inf)), default=math.nan) if plain else 0.0
