"""How the size of a recurrent state grows from step to step of a sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.ledger import measurement

LEAST = 8  # steps


@dataclass(frozen=True)
class Growth:
    """By what factor the values of a recurrent module are larger at the last of so many steps than in the middle.

    What the inputs grow by meanwhile is divided out.
    """

    module: str
    steps: int
    factor: float


@dataclass
class Sizes:
    """The sizes of what goes into a module and comes out of it, step by step."""

    given: list[float] = field(default_factory=list)
    made: list[float] = field(default_factory=list)

    def heard(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """The module was called: with a sequence, or with one step of it."""
        state = output[0] if isinstance(output, tuple) and output else output
        if not args or not isinstance(args[0], Tensor) or not isinstance(state, Tensor):
            return
        whole = isinstance(module, nn.RNN) and state.dim() > 1
        axis = 1 if isinstance(module, nn.RNN) and module.batch_first and state.dim() > 2 else 0
        self.given += map(size, args[0].unbind(axis) if whole else [args[0]])
        self.made += map(size, state.unbind(axis) if whole else [state])

    @property
    def factor(self) -> float:
        """By how much more what comes out grows over the second half than what goes in."""
        return grown(self.made) / max(grown(self.given), 1.0)


@measurement
def recurrence(answers: Answers) -> list[Growth]:
    """The growth of each recurrent module that nothing bounds: torch's own with ReLU, sequences or cells."""
    model, found = answers.setup.eager, dict[str, Sizes]()
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, (nn.RNN, nn.RNNCell)) and module.nonlinearity == "relu":
                sizes = found[name] = Sizes()
                stack.callback(module.register_forward_hook(sizes.heard).remove)
        if found:
            answers.to(answers.batch)
    return [Growth(name, len(one.made), one.factor) for name, one in found.items() if len(one.made) >= LEAST]


def size(tensor: Tensor) -> float:
    """The root of the mean square."""
    return math.sqrt(float(tensor.detach().double().square().mean())) if tensor.numel() else 0.0


def grown(sizes: Sequence[float]) -> float:
    """The last size over that in the middle."""
    middle = sizes[len(sizes) // 2]
    return sizes[-1] / middle if middle else 1.0
