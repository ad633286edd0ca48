"""M309: a reshape mixes axes that a permute should have moved."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.reshapes import Scrambled, Shape
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup


@rule("M309", "error")
def scrambled_axes(scrambled: list[Scrambled]) -> Iterator[Finding]:
    """A reshape mixes axes that a permute should have moved.

    ## What it does
    Finds calls of ``view`` and ``reshape``, in the model and in the loss, after which the lengths of axes have changed
    places, with one axis perhaps split in two or two joined, as for the heads of attention.

    ## Why it matters
    A reshape moves no value: it cuts the same row of numbers anew. The shape is the one that was wanted, and what lies
    along each axis is a mixture: of time and channels, of colors and pixels, or of samples. Nothing is raised.

    ## How it is measured
    On the shapes before and after each call of one pass. Splitting and joining neighbors is left alone, as that keeps
    their order. Where the axis of the samples is concerned, lengths may agree by accident; it counts only if changing
    one sample changes the outputs of others, or if the call stands in the loss.

    ## How to fix
    Swap axes with ``transpose`` or ``permute``; reshape afterwards to split or join neighbors.

    ## When to ignore
    When a layer that treats all values alike follows, as elementwise ones do, and the reshape is undone behind it.

    ## References
    Documentation of torch.Tensor.view: the returned tensor shares the same data. Rogozhnikov, Einops, 2022, section 2.
    """
    for one in {(one.call.line, one.before, one.after): one for one in scrambled}.values():
        yield Finding(
            message=f"{one.call.name} turns shape {one.before} into {one.after}: the lengths {one.taken} become "
            f"{one.given}; expected the same order, for a reshape moves no value to another axis.",
            where=one.call.where,
            cause="Axes were to change places, and the numbers were only cut anew, so that they are mixed.",
            fix=fix(one.before, one.after),
            evidence={"before": one.before, "after": one.after, "call": one.call.name},
            explains=("M304", "M305", "T601", "T606", "T607", "T608", "T609", "T610", "E703", "E709"),
        )


def fix(before: Shape, after: Shape) -> str:
    """The permutation that leads from one shape to the other, or how to come to one."""
    if sorted(before) == sorted(after) and len(set(before)) == len(before):
        order = [before.index(length) for length in after]
        moved = [axis for axis, place in enumerate(order) if axis != place]
        if len(moved) == 2:
            return f"x = x.transpose({moved[0]}, {moved[1]})"
        return f"x = x.permute({', '.join(map(str, order))})"
    return "# split or join axes that lie side by side, and swap axes by x.transpose(...) before or after"


class Convolved(nn.Module):
    """Scores of a series, by a convolution over time."""

    def __init__(self, swap: bool) -> None:
        super().__init__()
        self.swap, self.body, self.head = swap, nn.Conv1d(3, 8, 3), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Scores by the mean over time."""
        channels_first = x.transpose(1, 2) if self.swap else x.reshape(len(x), 3, 6)
        scores: Tensor = self.head(self.body(channels_first).relu().mean(2))
        return scores


def series(swap: bool) -> Setup:
    """Series of six points in three channels, whose class is the sign of one channel."""
    x = torch.randn(64, 6, 3, generator=torch.Generator().manual_seed(0))
    return program(Convolved(swap), x, (x[..., 0].mean(1) > 0).long(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A reshape to channels first."""
    return series(swap=False)


def good() -> Setup:
    """A transposition to channels first."""
    return series(swap=True)
