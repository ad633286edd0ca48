"""What a changed sample is to reach, as one number: above zero it is reached."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.attribution.problem import Problem
from nbdebug.counterfactual.columns import Floats
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.setup.losses import named
from nbdebug.setup.names import class_name

Target = int | str | None
NUMBERS = ("squared", "absolute")


@dataclass(frozen=True, eq=False)
class Goal:
    """Outputs of other classes, of a chosen class, or a number moved ``by`` so much.

    ``before`` are the outputs of the sample, ``start`` is its class, None for numbers; ``wanted`` the chosen class or
    None for any other. One output of a class is above ``threshold`` for class 1.
    """

    before: Floats
    start: int | None
    wanted: int | None = None
    by: float | None = None
    threshold: float = 0.0
    names: tuple[str, ...] = ()

    def margins(self, outputs: Floats) -> Floats:
        """How far rows of outputs are beyond what is to be reached."""
        if self.by is not None:
            moved: Floats = (outputs[:, 0] - self.before[0]) * np.sign(self.by) - abs(self.by)
            return moved
        scores = self.scores(outputs)
        one = (self.start or 0) if self.wanted is None else self.wanted
        lead: Floats = scores[:, one] - np.delete(scores, one, 1).max(1)
        return -lead if self.wanted is None else lead

    def scores(self, outputs: Floats) -> Floats:
        """A column for each class."""
        if outputs.shape[1] > 1:
            return outputs
        return np.concatenate([np.zeros_like(outputs), outputs - self.threshold], 1)

    def decided(self, outputs: Floats) -> NDArray[np.int64]:
        """The class of each row."""
        found: NDArray[np.int64] = self.scores(outputs).argmax(1)
        return found

    def name(self, number: int) -> str:
        """A class by its name."""
        return class_name(self.names, number)

    def said(self) -> str:
        """The goal in words."""
        if self.by is not None:
            return f"the output {'rises' if self.by > 0 else 'falls'} by {abs(self.by):.4g}"
        return "any other class" if self.wanted is None else self.name(self.wanted)


def goal_of(
    given: Any, problem: Problem, seen: Floats, target: Target, by: float | None, threshold: float | None
) -> Goal:
    """The goal that was asked for; ``seen`` are outputs of training samples. Raises SetupError for what is none."""
    before = problem.outputs[0].detach().to("cpu").double().numpy()
    names = tuple(problem.names[0] or ())
    loss = named(given.loss_fn) if isinstance(given, Setup) else "other"
    if by is not None or (len(before) == 1 and (loss in NUMBERS or gives_numbers(given))):
        return Goal(before, None, by=moved(before, seen, by, target), names=names)
    if threshold is not None and len(before) > 1:
        said = f"threshold is {threshold:g} and the model has {len(before)} outputs"
        raise SetupError(f"{said}; expected one. Pass target= for a class.")
    if threshold is None:
        threshold = 0.5 if loss == "bce" or (loss == "other" and within_one(seen)) else 0.0
    goal = Goal(before, None, threshold=threshold, names=names)
    start = int(goal.decided(before[None])[0])
    return Goal(before, start, chosen(target, start, len(goal.scores(before[None])[0]), names), None, threshold, names)


def gives_numbers(given: Any) -> bool:
    """Whether a set-up is said to be of a regression, or an estimator is one."""
    if isinstance(given, Setup):
        return given.task is not None and given.task.name == "regression"
    if "sklearn" not in sys.modules or not hasattr(given, "predict"):
        return False
    from sklearn.base import is_regressor

    return bool(is_regressor(given))


def within_one(seen: Floats) -> bool:
    """Whether a single output looks like a probability."""
    return bool(seen.shape[1] == 1 and seen.min() >= 0 and seen.max() <= 1)


def moved(before: Floats, seen: Floats, by: float | None, target: Target) -> float:
    """By how much a number is to move: the median deviation of all outputs, where nothing was said.

    Raises SetupError for no finite move, and for classes.
    """
    if len(before) > 1:
        raise SetupError(f"by is {by} and the model has {len(before)} outputs; expected one. Pass target= for a class.")
    if target is not None:
        raise SetupError(f"target is {target!r} and the output is a number; expected by=, how far it is to move.")
    if by is None:
        by = float(np.median(np.abs(seen - np.median(seen)))) or 1.0
    if not np.isfinite(by) or by == 0:
        raise SetupError(f"by is {by}; expected a number above or below 0. Say how far the output is to move.")
    return float(by)


def chosen(target: Target, start: int, count: int, names: Sequence[str]) -> int | None:
    """The class that is wanted, None for any other; raises SetupError for the present one and for none."""
    if target is None:
        return None
    if isinstance(target, str) and target in names:
        target = list(names).index(target)
    if not isinstance(target, (int, np.integer)) or isinstance(target, bool) or not 0 <= target < count:
        raise SetupError(f"target is {target!r}; expected a class, 0 to {count - 1}. Pass one, or none for any other.")
    if target == start:
        raise SetupError(f"target is {target!r}, which is the decision already; expected another. Pass another class.")
    return int(target)
