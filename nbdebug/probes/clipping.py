"""The calls of a running loop that clip gradients, however they were imported."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_


@dataclass(frozen=True)
class Clip:
    """One call: the parameters it was given, its limit, and the norm it found (None when it clips single values)."""

    parameters: tuple[Tensor, ...]
    limit: float
    norm: Tensor | None


@contextmanager
def clipping(heard: Callable[[Clip], None]) -> Iterator[None]:
    """A block in which each clipping of gradients is told of, after it was done.

    Users import these functions by name, so the function inside torch's own ``no_grad`` wrapper is exchanged, and put
    back when the block ends. Where torch does not wrap them, nothing is heard.
    """

    def norms(original: Any, found: tuple[Tensor, ...], given: Any, limit: float, *rest: Any, **named: Any) -> Any:
        norm = original(given, limit, *rest, **named)
        heard(Clip(found, float(limit), norm if isinstance(norm, Tensor) else None))
        return norm

    def values(original: Any, found: tuple[Tensor, ...], given: Any, limit: float, *rest: Any, **named: Any) -> Any:
        original(given, limit, *rest, **named)
        heard(Clip(found, float(limit), None))

    with exchanged(clip_grad_norm_, "max_norm", norms), exchanged(clip_grad_value_, "clip_value", values):
        yield


@contextmanager
def exchanged(outer: Any, limit: str, act: Callable[..., Any]) -> Iterator[None]:
    """A block in which a wrapped function is called through another, with its parameters listed."""
    cell = dict(zip(outer.__code__.co_freevars, outer.__closure__ or (), strict=True)).get("func")
    if cell is None:
        yield
        return
    original = cell.cell_contents

    def call(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        found = (parameters,) if isinstance(parameters, Tensor) else tuple(parameters)
        # An empty generator is warned of by torch, so it stays one.
        given = (one for one in found) if isinstance(parameters, types.GeneratorType) else found
        if limit in kwargs:
            args = (kwargs.pop(limit), *args)
        return act(original, found, given, *args, **kwargs)

    with ExitStack() as undo:
        undo.callback(setattr, cell, "cell_contents", original)
        cell.cell_contents = call
        yield
