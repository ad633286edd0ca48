"""M309: a reshape mixes axes that a permute should have moved."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.trial import Trial
from nbdebug.finding import Finding
from nbdebug.graph.lockstep import Call
from nbdebug.registry import rule
from nbdebug.rules.model.batch_mixing import CONSEQUENCES
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

RESHAPES = ("view", "reshape")


@rule("M309", "error")
def scrambled_axes(trial: Trial) -> Iterator[Finding]:
    """A reshape mixes axes that a permute should have moved.

    ## What it does
    Finds a view or reshape that gives a tensor its own sizes in another order, as (batch, channels, time) made
    (batch, time, channels).

    ## Why it matters
    View and reshape keep the values in their order and cut them anew: what stands under a time step afterwards comes
    from several channels and several steps. Shapes fit, nothing is raised, and the meaning of the axes is gone.

    ## How it is measured
    On the shapes of each view and reshape of a forward pass of a few samples, where they differ from each other.

    ## How to fix
    Use permute or transpose, which move the values with their axes.

    ## When to ignore
    When the values really lie in the new order in memory.

    ## References
    Documentation of torch.Tensor.view and torch.permute.
    """
    for call in trial.calls:
        if is_scramble(call):
            before, after = tuple(call.given[0].shape), tuple(call.made[0].shape)
            yield Finding(
                message=f"{call.name} cuts {before} anew as {after}: the axes change places, their values do not.",
                where=call.where,
                cause="View and reshape do not move axes.",
                fix=f"x = x.permute({', '.join(map(str, order(before, after)))})",
                evidence={"before": list(before), "after": list(after)},
                explains=("M304", *CONSEQUENCES),
            )


def is_scramble(call: Call) -> bool:
    """Whether the same sizes, all different, come out in another order, axes of size one aside."""
    if call.name.rpartition(".")[2] not in RESHAPES or not call.given:
        return False
    before, after = ([size for size in t.shape if size != 1] for t in (call.given[0], call.made[0]))
    return before != after and sorted(before) == sorted(after) and len(set(before)) == len(before)


def order(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    """The axes of ``before`` in the order in which ``after`` has them."""
    left = list(range(len(before)))
    found = []
    for size in after:
        axis = next((one for one in left if before[one] == size), None)
        if axis is not None:
            left.remove(axis)
            found.append(axis)
    return found


class Steps(nn.Module):
    """Scores each step of a signal whose channels come before its steps, and takes the mean."""

    def __init__(self, moved: bool) -> None:
        super().__init__()
        self.moved, self.inner, self.head = moved, nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Scores for three classes."""
        x = x.transpose(1, 2) if self.moved else x.reshape(len(x), x.shape[2], x.shape[1])
        scores: Tensor = self.head(torch.relu(self.inner(x))).mean(1)
        return scores


def signals(moved: bool) -> Setup:
    """Signals of four channels and nine steps."""
    x, y = points()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Steps(moved)
        noise = 0.1 * torch.randn(64, 4, 9)
    return program(model, x[:, :, None] + noise, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Axes exchanged by reshape."""
    return signals(moved=False)


def good() -> Setup:
    """Axes exchanged by transpose."""
    return signals(moved=True)
