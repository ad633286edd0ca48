"""What the user's loss hands to torch's Kullback-Leibler divergence."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.graph.source import Line, from_frame
from nbdebug.setup import Setup
from nbdebug.setup.trees import transform


@dataclass(frozen=True)
class Divergence:
    """One call: its first argument, which is to be the logarithm of probabilities, and the user's line."""

    given: Tensor
    line: Line | None


@dataclass
class DivergenceWatch(TorchFunctionMode):
    """Keeps the calls while it is on."""

    calls: list[Divergence] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Sets up the mode."""
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the call as it is, and keeps what it was given."""
        if func is F.kl_div and (given := (*args, *(kwargs or {}).values())):
            self.calls.append(Divergence(given[0].detach(), from_frame(sys._getframe(1))))
        return func(*args, **(kwargs or {}))


@measurement
def divergences(setup: Setup, first_pass: Pass, output: Any, loss: Tensor) -> list[Divergence]:
    """The divergences in the loss of the first batch."""
    if setup.loss_fn is None:
        return []
    watch = DivergenceWatch()
    with torch.no_grad(), watch:
        setup.loss(
            transform(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf), first_pass.batch
        )
    return watch.calls
