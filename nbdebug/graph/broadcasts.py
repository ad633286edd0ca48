"""Where output and target are joined element by element although their shapes differ."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.graph.cuts import call_name
from nbdebug.graph.source import Line, from_frame
from nbdebug.setup.trees import tensors

LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
OPERATORS = {
    *("add", "sub", "rsub", "mul", "truediv", "pow", "radd", "rmul", "subtract", "multiply", "div", "where"),
    *("poisson_nll_loss", "kl_div", "soft_margin_loss"),
}


@dataclass(frozen=True)
class Broadcast:
    """One call that stretched output or target over the other."""

    call: str
    output: tuple[int, ...]
    target: tuple[int, ...]
    result: tuple[int, ...]
    line: Line | None


class BroadcastWatch(TorchFunctionMode):
    """Records each element-wise call that stretches something made of the output over something made of the target.

    Torch's own losses take equal shapes. An operator may stretch one side on purpose, as for quantiles or weights; it
    is recorded when the result is larger than both, which takes operands of another number of axes.
    """

    def __init__(self, output: list[Tensor], targets: list[Tensor]) -> None:
        super().__init__()
        self.kept = [*output, *targets]
        self.output = {id(t) for t in output}
        self.target = {id(t) for t in targets}
        self.found: list[Broadcast] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the call as it is, and follows what its result was made of."""
        given = tensors((args, kwargs or {}))
        ours = [t for t in given if id(t) in self.output]
        theirs = [t for t in given if id(t) in self.target]
        if ours and theirs:
            self.look(func, ours[0], theirs[0])
        result = func(*args, **(kwargs or {}))
        made = tensors(result)
        self.kept += made
        if bool(ours) != bool(theirs):
            (self.output if ours else self.target).update(id(t) for t in made)
        return result

    def look(self, func: Any, ours: Tensor, theirs: Tensor) -> None:
        """Keeps the call when one side is stretched in a way that nobody means."""
        name = getattr(func, "__name__", "").strip("_")
        if not ours.dim() or not theirs.dim() or ours.shape == theirs.shape or name not in LOSSES | OPERATORS:
            return
        try:
            joined = torch.Size(torch.broadcast_shapes(ours.shape, theirs.shape))  # type: ignore[no-untyped-call]
        except RuntimeError:
            return
        grown = ours.dim() != theirs.dim() and joined.numel() > max(ours.numel(), theirs.numel())
        if grown or name in LOSSES:
            line = from_frame(sys._getframe(2))
            self.found.append(Broadcast(call_name(func), tuple(ours.shape), tuple(theirs.shape), tuple(joined), line))
