"""Contrastive attribution: attributions of the score difference of two classes.

An attribution that is linear in the score, such as expected gradients, equals the difference of two attributions at the
cost of one; its completeness gap is that of the difference itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.attribution import Attribution
from nbdebug.attribution.attribute import (
    METHODS,
    auto_methods,
    canonical_method,
    check_method,
    run_attribution,
)
from nbdebug.attribution.preparation import build_problem, resolve_target
from nbdebug.attribution.problem import Problem
from nbdebug.counterfactuals.goal import ClassChoice, contrast_score
from nbdebug.exceptions import SetupError
from nbdebug.inference.outputs import resolve_class_name
from nbdebug.result import TextRepr
from nbdebug.setup import Setup
from nbdebug.setup.class_names import class_name
from nbdebug.setup.evaluation_mode import evaluation_mode
from nbdebug.setup.losses import get_loss_kind

_SINGLE_OUTPUT_METHODS = ("tree",)  # explains single outputs only, not a function of several outputs


@dataclass(frozen=True)
class ContrastiveAttribution(TextRepr):
    """Contribution of each input value to class ``first`` rather than class ``second``, per sample.

    ``attribution`` explains the score of the first class minus that of the second: its ``scores`` are these
    differences, its ``base`` their mean over the background, its ``classes`` the first classes.
    """

    attribution: Attribution
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    def class_name(self, number: int) -> str:
        """Return the name of a class."""
        return class_name(self.attribution.class_names, number)

    def description(self, row: int) -> str:
        """Describe the two classes of a sample."""
        return f"{self.class_name(int(self.first[row]))} rather than {self.class_name(int(self.second[row]))}"

    def to_text(self) -> str:
        """Return the result as plain text."""
        return str(self.attribution)


def contrast(
    setup_or_model: Any,
    inputs: Any,
    first: ClassChoice = "predicted",
    second: ClassChoice | None = None,
    background: Any = None,
    *,
    method: str = "auto",
    space: str = "logits",
    labels: Any = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
    **options: Any,
) -> ContrastiveAttribution:
    """Attribute the score difference between the ``first`` class and the ``second``.

    Classes are "predicted", "true" (with ``labels``), a class, or one class per sample; ``second`` may be "runner-up".
    By default it is the true class if ``labels`` show that the first is wrong, else the runner-up. Everything else is
    as in ``attribute``. Raises SetupError for a single output that is not a class score, and for equal classes.
    """
    start_time = time.perf_counter()
    problem = build_problem(setup_or_model, inputs, background, labels, score, rows)
    with evaluation_mode(problem.model, problem.owned):
        resolve_target(problem, 0, space)
        _check_classes(setup_or_model, problem)
        first, second = (resolve_class_name(choice, problem.names[0]) for choice in (first, second))
        problem.target_score, pairs = contrast_score(problem, first, second, _has_probability_output(setup_or_model))
        target = "one class rather than another"
        attribution = run_attribution(problem, _contrast_method(problem, method), options, target, start_time)
    first_classes, second_classes = pairs.cpu().numpy().T
    contrast_result = ContrastiveAttribution(replace(attribution, classes=first_classes), first_classes, second_classes)
    return (
        contrast_result
        if len(contrast_result.first) > 1
        else replace(
            contrast_result, attribution=replace(contrast_result.attribution, target=contrast_result.description(0))
        )
    )


def _has_probability_output(setup_or_model: Any) -> bool:
    """Check whether the single output is a probability, according to the loss."""
    return isinstance(setup_or_model, Setup) and get_loss_kind(setup_or_model.loss_fn) == "bce"


def _check_classes(setup_or_model: Any, problem: Problem) -> None:
    """Raise SetupError if the single output is a number, not a class score."""
    loss = get_loss_kind(setup_or_model.loss_fn) if isinstance(setup_or_model, Setup) else "other"
    if problem.outputs.shape[1] == 1 and loss in ("squared", "absolute"):
        raise SetupError(
            "the model has one output, a number; expected at least two classes to compare. "
            "Use attribute() to explain the number itself."
        )


def _contrast_method(problem: Problem, method: str) -> str:
    """Return the method for a difference; raise SetupError for one that can only explain an output."""
    if method in _SINGLE_OUTPUT_METHODS:
        allowed = ", ".join(name for name in METHODS if name not in _SINGLE_OUTPUT_METHODS)
        raise SetupError(f"method is {method!r}, which explains single outputs; expected auto, {allowed}. Choose one.")
    check_method(method)
    auto_order = auto_methods(problem) if method == "auto" else []
    if _SINGLE_OUTPUT_METHODS[0] in auto_order:
        return next(name for name in auto_order if name not in _SINGLE_OUTPUT_METHODS)
    return canonical_method(method)
