"""When a tiny batch counts as memorized."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.tools.overfit.floor import Floor

# Of the way from the best constant output to the floor: an R² of 0.9 in regression, and for cross-entropy a mean
# probability of the target of 0.8 with ten classes and 0.93 with two.
LEFT = 0.1


@dataclass(frozen=True)
class Goal:
    """The loss to reach, and the accuracy where each example has one answer; None where there is none to reach."""

    loss: float | None
    accuracy: float | None = None

    def close(self, loss: float) -> bool:
        """Whether a loss is low enough."""
        return self.loss is not None and loss <= self.loss

    def met(self, loss: float, accuracy: float | None) -> bool:
        """Whether the examples count as memorized."""
        right = self.accuracy is None or (accuracy is not None and accuracy >= self.accuracy)
        return self.close(loss) and right


def goal(floor: Floor, initial: float, accuracy: float | None) -> Goal:
    """A tenth of the way from the floor up to the best constant output, or to the start where that one says nothing.

    Where the floor is not known zero stands for it, unless the loss falls without end: few losses lie below zero, and
    to come near it is then proof all the same.
    """
    if floor.endless:
        return Goal(None, accuracy)
    low = floor.value if floor.value is not None else 0.0
    high = initial if floor.chance is None or floor.blind else floor.chance
    return Goal(low + LEFT * (high - low), accuracy) if high >= low else Goal(None, accuracy)
