"""Calls whose effect a mode switches: dropout, attention with dropout, batch normalization; and draws of chance."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nbdebug.finding import Where
from nbdebug.graph.cuts import call_name
from nbdebug.graph.running import Running
from nbdebug.graph.source import Line, from_frame
from nbdebug.setup.modes import in_mode

Kind = Literal["dropout", "batch statistics", "draw"]
DROPOUTS = (
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, F.rrelu,
    torch.dropout, torch.dropout_, torch.feature_dropout, torch.alpha_dropout,
)  # fmt: skip
DRAWS = (
    torch.rand, torch.rand_like, torch.randn, torch.randn_like, torch.randint, torch.randperm, torch.bernoulli,
    torch.multinomial, torch.normal, torch.poisson, F.gumbel_softmax, torch.Tensor.bernoulli, torch.Tensor.bernoulli_,
    torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.random_, torch.Tensor.exponential_,
    torch.Tensor.multinomial,
)  # fmt: skip


@dataclass(frozen=True)
class Switched:
    """One such call: whether it was on, its line, and the submodule that was running with its path and mode."""

    kind: Kind
    call: str
    on: bool
    line: Line | None
    module: str | None
    training: bool

    @property
    def where(self) -> Where:
        """The place of this call."""
        return self.line.where(self.module or None) if self.line else Where(module=self.module or None)


class SwitchWatch(TorchFunctionMode):
    """Records every such call while it is on, with the submodule of ``model`` that is running."""

    def __init__(self, model: nn.Module, running: Running) -> None:
        super().__init__()
        self.model, self.running = model, running
        self.calls: list[Switched] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the call as it is, and notes it when a mode or chance decides what it gives."""
        kwargs = kwargs or {}
        read = reading(func, args, kwargs)
        if read is not None:
            kind, on = read
            path = self.running.innermost or ""
            training, line = self.model.get_submodule(path).training, from_frame(sys._getframe(1))
            self.calls.append(Switched(kind, call_name(func), on, line, path, training))
        return func(*args, **kwargs)


def reading(func: Any, args: Any, kwargs: Any) -> tuple[Kind, bool] | None:
    """The kind of a call and whether it is on; None for calls that no mode and no chance decides."""
    if func in DRAWS:
        return "draw", True
    if func in DROPOUTS:
        rate = 1.0 if func is F.rrelu else argument(func, args, kwargs, "p", 1, 0.5)
        training = argument(func, args, kwargs, "training" if func.__module__ == F.__name__ else "train", 2, True)
        return ("dropout", bool(training)) if rate else None
    if func is F.scaled_dot_product_attention:
        return ("dropout", True) if argument(func, args, kwargs, "dropout_p", 4, 0.0) else None
    if func is F.multi_head_attention_forward:
        rate, training = (argument(func, args, kwargs, name, 0, None) for name in ("dropout_p", "training"))
        return ("dropout", bool(training)) if rate else None
    if func is F.batch_norm:
        has_statistics = argument(func, args, kwargs, "running_mean", 1, None) is not None
        training = argument(func, args, kwargs, "training", 5, False)
        return ("batch statistics", bool(training)) if has_statistics else None
    return None


def argument(func: Any, args: Any, kwargs: Any, name: str, place: int, default: Any) -> Any:
    """One argument of a call by name, by the signature where there is one, else by its place."""
    try:
        bound = inspect.signature(func).bind(*args, **kwargs)
    except (ValueError, TypeError):
        return kwargs.get(name, args[place] if place < len(args) else default)
    bound.apply_defaults()
    return bound.arguments.get(name, default)


@contextmanager
def switches(model: nn.Module, training: bool) -> Iterator[list[Switched]]:
    """A block in which the whole model is in one mode and its calls are recorded; modes are put back afterwards."""
    running = Running()
    watch = SwitchWatch(model, running)
    with running.inside(model), in_mode(model, training), watch:
        yield watch.calls


def apart(first: list[Tensor], second: list[Tensor]) -> float:
    """The largest difference between two outputs, as a share of the largest value of the first."""
    shares = [0.0]
    for one, other in zip(first, second, strict=False):
        if one.shape != other.shape:
            return float("inf")
        if one.numel() and (one.is_floating_point() or one.is_complex()):
            difference = float((one - other).abs().nan_to_num().max())
            shares.append(difference / max(float(one.abs().nan_to_num().max()), 1e-12))
    return max(shares)
