"""Whether a loss is divided before its backward pass, and how many passes are summed up for a step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.graph.source import Line
from nbdebug.loop.interval import Stepper

SUMS = ("AddBackward", "SubBackward", "ToCopyBackward", "CloneBackward", "SqueezeBackward", "ViewBackward")
SUM_REDUCTION = 2
MOST_NODES = 32


@dataclass(frozen=True)
class Sums:
    """The steps that were looked at, and those that several backward passes were summed up for.

    ``plain`` of them took the loss of each of several batches at one ``line``, divided by nothing; ``passes`` is how
    many a step mostly took then. ``adaptive`` says whether a constant factor means nothing to the optimizer.
    """

    known: int = 0
    plain: int = 0
    passes: int = 0
    line: Line | None = None
    adaptive: bool = False


class Summing:
    """Counts the steps."""

    def __init__(self) -> None:
        self.known = 0
        self.plain: Counter[int] = Counter()
        self.line: Line | None = None
        self.adaptive = False

    def stepped(self, stepper: Stepper) -> None:
        """A step is about to be made, after all that its interval holds."""
        interval = stepper.interval
        if not interval.looked or not interval.passes:
            return
        self.known += 1
        many, lines = interval.passes, interval.lines
        if many > 1 and interval.undivided == many and interval.draws >= many and len(lines) == 1:
            self.plain[many] += 1
            (self.line,) = lines
            self.adaptive = is_adaptive(stepper)

    def seen(self) -> Sums:
        """All that was counted."""
        usual = max(self.plain, key=lambda many: self.plain[many], default=0)
        return Sums(self.known, sum(self.plain.values()), usual, self.line, self.adaptive)


def is_adaptive(stepper: Stepper) -> bool:
    """Whether an optimizer divides gradients by their own size, as those with a decaying square do."""
    group = stepper.optimizer.param_groups[0]
    return bool({"betas", "alpha", "rho", "lr_decay", "etas", "beta2_decay"} & set(group)) and "lambd" not in group


def is_divided(root: Tensor, scaled: bool) -> bool:
    """Whether a loss was multiplied or divided on its way to the root, or is a sum over samples.

    Read off the graph, through sums of scalars, up to the first operation on more than a scalar; the factor of a
    GradScaler, which is the outermost if the loss is ``scaled``, is left out.
    """
    todo: list[Any] = [root.grad_fn]
    if scaled and root.grad_fn is not None:
        todo = [after for after, _ in root.grad_fn.next_functions][:1]
    for _ in range(MOST_NODES):
        if not todo:
            return False
        node = todo.pop()
        name = node.name() if node is not None else ""
        if name.startswith(("DivBackward", "MulBackward", "SumBackward")) or is_summed(node):
            return True
        if name.startswith(SUMS):
            todo += [after for after, _ in node.next_functions]
    return True


def is_summed(node: Any) -> bool:
    """Whether a loss of torch's sums over samples."""
    return getattr(node, "_saved_reduction", None) == SUM_REDUCTION
