"""The calls of a running loop to its GradScaler, and the steps that it leaves out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.setup.trees import tensors

Kind = Literal["scale", "unscale", "step", "skipped", "stepped"]


@dataclass(frozen=True)
class Scaled:
    """One call: ``losses`` are what "scale" gave; "step" comes before the step, "skipped" or "stepped" after it."""

    kind: Kind
    scaler: Any
    optimizer: torch.optim.Optimizer | None = None
    losses: tuple[Tensor, ...] = ()


@contextmanager
def scaling(heard: Callable[[Scaled], None]) -> Iterator[None]:
    """A block in which the calls of every enabled GradScaler are told of; the class is put back when it ends."""
    kind = torch.amp.GradScaler
    scale, unscale, step = kind.scale, kind.unscale_, kind.step

    @functools.wraps(scale)
    def scaled(self: Any, outputs: Any) -> Any:
        given = scale(self, outputs)
        if self.is_enabled():
            heard(Scaled("scale", self, losses=tuple(tensors(given))))
        return given

    @functools.wraps(unscale)
    def unscaled(self: Any, optimizer: Any) -> None:
        unscale(self, optimizer)
        if self.is_enabled():
            heard(Scaled("unscale", self, optimizer))

    @functools.wraps(step)
    def stepped(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_enabled():
            return step(self, optimizer, *args, **kwargs)
        heard(Scaled("step", self, optimizer))
        with steps_of(optimizer) as made:
            result = step(self, optimizer, *args, **kwargs)
        heard(Scaled("stepped" if made else "skipped", self, optimizer))
        return result

    with ExitStack() as undo:
        for original, ours in ((scale, scaled), (unscale, unscaled), (step, stepped)):
            undo.callback(setattr, kind, original.__name__, original)
            setattr(kind, original.__name__, ours)
        yield


@contextmanager
def steps_of(optimizer: torch.optim.Optimizer) -> Iterator[list[bool]]:
    """A block in which each step that an optimizer really makes is noted.

    One that unscales the gradients itself, as ``fused=True`` does, is called in any case, and told whether to step;
    that answer is read where it costs no waiting.
    """
    made: list[bool] = []

    def note(one: Any, *_: Any) -> None:
        found = getattr(one, "found_inf", None)
        if found is None or found.is_cuda or not float(found):
            made.append(True)

    if not isinstance(optimizer, torch.optim.Optimizer):  # a wrapper of someone's own, whose steps cannot be heard
        yield [True]
        return
    handle = optimizer.register_step_post_hook(note)
    try:
        yield made
    finally:
        handle.remove()


def scale_of(optimizer: torch.optim.Optimizer) -> Tensor | None:
    """What the gradients are still multiplied by when a step begins that unscales them itself; None for any other."""
    found = getattr(optimizer, "grad_scale", None)
    return found if isinstance(found, Tensor) else None
