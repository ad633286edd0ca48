"""Where NaN and Inf come from: operations whose inputs were finite and whose result is not."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nbdebug.finding import Where
from nbdebug.graph.running import Running
from nbdebug.graph.source import Line, from_frame, where_of
from nbdebug.setup.trees import tensors

UNFILLED = ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")


@dataclass(frozen=True)
class Origin:
    """One operation that made NaN or Inf of finite numbers: what it made, of which range, where, in which rows."""

    operation: str
    made: str
    low: float
    high: float
    shape: tuple[int, ...]
    rows: tuple[int, ...]
    module: str | None
    line: Line | None

    @property
    def where(self) -> Where:
        """The place of this operation."""
        return where_of(self.line, self.module)


class OriginWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows what is not finite from the operation that made it, while it is on.

    Infinity that was put in, as a mask does, is no fault by itself, until an operation makes NaN of it. What is not
    finite is known by its memory, so that it is followed through views.
    """

    def __init__(self, running: Running) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.running = running
        self.found: list[Origin] = []
        self.tainted: dict[int, Origin | None] = {}

    def origin(self, tensor: Tensor) -> Origin | None:
        """The operation that made what is not finite in a tensor; None where none of this run did."""
        return self.tainted.get(memory(tensor)) or next(iter(self.found), None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation as it is, and notes what it made."""
        given = tensors((args, kwargs or {}))
        wrong = [t for t in given if not is_finite(t)]
        had_nan = any(bool(t.isnan().any()) for t in wrong)
        put_in = bool(wrong) or any(isinstance(one, float) and not math.isfinite(one) for one in args)
        earlier = next((one for t in wrong if (one := self.tainted.get(memory(t)))), None)
        span, held = extent(given), {memory(t) for t in given}
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        for made in tensors(result):
            if is_finite(made) or name in UNFILLED:
                if memory(made) not in held:
                    self.tainted.pop(memory(made), None)
            elif earlier or had_nan or (put_in and not bool(made.isnan().any())):
                self.tainted[memory(made)] = earlier
            else:
                self.tainted[memory(made)] = self.noted(name, made, *span)
        return result

    def noted(self, name: str, made: Tensor, low: float, high: float) -> Origin:
        """The operation at hand as an origin."""
        wrong = ~made.isfinite()
        rows = wrong.flatten(1).any(1) if made.dim() > 1 else wrong if made.dim() else wrong.reshape(1)
        kind = "NaN" if bool(made.isnan().any()) else "Inf"
        places = tuple(rows.nonzero().flatten().tolist())
        line = from_frame(sys._getframe(2))
        self.found.append(
            Origin(name.strip("_"), kind, low, high, tuple(made.shape), places, self.running.innermost, line)
        )
        return self.found[-1]


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor holds neither NaN nor Inf."""
    plain = tensor.is_floating_point() and tensor.layout == torch.strided
    return not plain or bool(tensor.isfinite().all())


def memory(tensor: Tensor) -> int:
    """Where the values of a tensor lie; the same for views of it."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else id(tensor)


def extent(given: list[Tensor]) -> tuple[float, float]:
    """The smallest and the largest finite number among some tensors; NaN where there is none."""
    plain = [t.detach() for t in given if t.is_floating_point() and t.layout == torch.strided]
    values = [part for t in plain if (part := t[t.isfinite()]).numel()]
    if not values:
        return math.nan, math.nan
    return min(float(part.min()) for part in values), max(float(part.max()) for part in values)
