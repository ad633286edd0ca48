"""What speaks for one class rather than another: attributions of the difference of two scores.

An attribution that is linear in the score, as expected gradients are, gives the same as the difference of the two
attributions, at the price of one; and its completeness error is that of the difference itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.attribution import Attribution
from nbdebug.attribution.attribute import result, run
from nbdebug.attribution.engines import ENGINES, chosen, refuse_unknown
from nbdebug.attribution.prepare import aim, copied, problem_of
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.quiet import quiet
from nbdebug.attribution.scores import by_name
from nbdebug.counterfactual.pairs import Side, against
from nbdebug.exceptions import SetupError
from nbdebug.result import Told
from nbdebug.setup import Setup
from nbdebug.setup.losses import named
from nbdebug.setup.names import class_name

NOT_ONE_SCORE = ("tree",)  # explains outputs of its own, not a function of them


@dataclass(frozen=True)
class Difference(Told):
    """What speaks for class ``first`` rather than ``second`` in each sample.

    ``attribution`` explains the score of the first minus that of the second: its ``scores`` are these differences, its
    ``base`` their mean over the background, its ``classes`` the first ones.
    """

    attribution: Attribution
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    def named(self, number: int) -> str:
        """A class by its name."""
        return class_name(self.attribution.class_names, number)

    def said(self, row: int) -> str:
        """The two classes of a sample in words."""
        return f"{self.named(int(self.first[row]))} rather than {self.named(int(self.second[row]))}"

    def __str__(self) -> str:
        """What was held against what, and how exact it is."""
        return str(self.attribution)


def difference(
    setup_or_model: Any,
    inputs: Any,
    first: Side = "predicted",
    second: Side | None = None,
    background: Any = None,
    *,
    method: str = "auto",
    space: str = "logits",
    labels: Any = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
    **options: Any,
) -> Difference:
    """How much each number of the inputs speaks for the ``first`` class rather than the ``second``.

    Classes are "predicted", "true" (with ``labels``), a class, or one for each sample; the second may be "runner-up".
    Without one it is the true class where ``labels`` say that the first is wrong, else the runner-up. Everything else
    is as in ``attribute``. Raises SetupError where there is one output that is no class, and for equal classes.
    """
    begun = time.perf_counter()
    problem = problem_of(setup_or_model, inputs, background, labels, score, rows)
    with quiet(problem.model, problem.owned):
        aim(copied(problem), 0, space)
        refuse_numbers(setup_or_model, problem)
        first, second = (by_name(one, problem.names[0]) for one in (first, second))
        problem.scored, pairs = against(problem, first, second, of_probabilities(setup_or_model))
        name, found = run(problem, usable(problem, method), options)
        said = "one class rather than another"
        attribution = result(problem, name, found, said, time.perf_counter() - begun)
    ours, theirs = pairs.cpu().numpy().T
    made = Difference(replace(attribution, classes=ours), ours, theirs)
    return made if len(made.first) > 1 else replace(made, attribution=replace(made.attribution, target=made.said(0)))


def of_probabilities(given: Any) -> bool:
    """Whether a single output is a probability, as the loss tells."""
    return isinstance(given, Setup) and named(given.loss_fn) == "bce"


def refuse_numbers(given: Any, problem: Problem) -> None:
    """Raises SetupError where the one output is a number, not a class."""
    loss = named(given.loss_fn) if isinstance(given, Setup) else "other"
    if problem.outputs.shape[1] == 1 and loss in ("squared", "absolute"):
        raise SetupError(
            "the model has one output, a number; expected classes to hold against each other. "
            "Use attribute() to explain the number itself."
        )


def usable(problem: Problem, method: str) -> str:
    """The engine for a difference; raises SetupError for one that can only explain an output by itself."""
    if method in NOT_ONE_SCORE:
        known = ", ".join(name for name in ENGINES if name not in NOT_ONE_SCORE)
        raise SetupError(f"method is {method!r}, which explains one output; expected auto, {known}. Choose one.")
    refuse_unknown(method)
    tried = chosen(problem) if method == "auto" else []
    return next(name for name in tried if name not in NOT_ONE_SCORE) if NOT_ONE_SCORE[0] in tried else method
