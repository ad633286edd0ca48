"""The goal of a counterfactual, and pairs of classes to compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.problem import Problem
from nbdebug.counterfactuals.feature_space import Floats
from nbdebug.exceptions import SetupError
from nbdebug.inference.outputs import TargetScore, target_columns, true_classes
from nbdebug.setup import Setup
from nbdebug.setup.class_names import class_name
from nbdebug.setup.losses import get_loss_kind

GoalTarget = int | str | None
_REGRESSION_LOSSES = ("squared", "absolute")
ClassChoice = int | str | Sequence[int]


@dataclass(frozen=True, eq=False)
class CounterfactualGoal:
    """Another class, a given class, or a change ``output_change`` of a numeric output.

    ``start_outputs`` are the outputs of the sample, ``start_class`` its class (None for numbers), ``target_class`` the
    target class (None for any other). A single class output above ``threshold`` means class 1.
    """

    start_outputs: Floats
    start_class: int | None
    target_class: int | None = None
    output_change: float | None = None
    threshold: float = 0.0
    names: tuple[str, ...] = ()

    def margins(self, outputs: Floats) -> Floats:
        """Return how far rows of outputs are beyond the goal."""
        if self.output_change is not None:
            excess: Floats = (outputs[:, 0] - self.start_outputs[0]) * np.sign(self.output_change) - abs(
                self.output_change
            )
            return excess
        scores = self.scores(outputs)
        class_index = (self.start_class or 0) if self.target_class is None else self.target_class
        margin: Floats = scores[:, class_index] - np.delete(scores, class_index, 1).max(1)
        return -margin if self.target_class is None else margin

    def scores(self, outputs: Floats) -> Floats:
        """Return one column per class."""
        if outputs.shape[1] > 1:
            return outputs
        return np.concatenate([np.zeros_like(outputs), outputs - self.threshold], 1)

    def predicted_classes(self, outputs: Floats) -> NDArray[np.int64]:
        """Return the predicted class of each row."""
        classes: NDArray[np.int64] = self.scores(outputs).argmax(1)
        return classes

    def class_name(self, number: int) -> str:
        """Return the name of a class."""
        return class_name(self.names, number)

    def description(self) -> str:
        """Describe the goal."""
        if self.output_change is not None:
            return f"the output {'rises' if self.output_change > 0 else 'falls'} by {abs(self.output_change):.4g}"
        return "any other class" if self.target_class is None else self.class_name(self.target_class)


def build_goal(
    setup_or_model: Any,
    problem: Problem,
    training_outputs: Floats,
    target: GoalTarget,
    by: float | None,
    threshold: float | None,
) -> CounterfactualGoal:
    """Build the goal; ``training_outputs`` are outputs of training samples. Raises SetupError for an invalid goal."""
    start_outputs = problem.outputs[0].detach().to("cpu").double().numpy()
    names = tuple(problem.names[0] or ())
    loss = get_loss_kind(setup_or_model.loss_fn) if isinstance(setup_or_model, Setup) else "other"
    if by is not None or (len(start_outputs) == 1 and (loss in _REGRESSION_LOSSES or _is_regression(setup_or_model))):
        return CounterfactualGoal(
            start_outputs,
            None,
            output_change=_required_change(start_outputs, training_outputs, by, target),
            names=names,
        )
    if threshold is not None and len(start_outputs) > 1:
        problem_text = f"threshold is {threshold:g} and the model has {len(start_outputs)} outputs"
        raise SetupError(f"{problem_text}; expected one output. Pass target= for a class.")
    if threshold is None:
        threshold = 0.5 if loss == "bce" or (loss == "other" and _looks_like_probability(training_outputs)) else 0.0
    goal = CounterfactualGoal(start_outputs, None, threshold=threshold, names=names)
    start_class = int(goal.predicted_classes(start_outputs[None])[0])
    return CounterfactualGoal(
        start_outputs,
        start_class,
        _resolve_target_class(target, start_class, len(goal.scores(start_outputs[None])[0]), names),
        None,
        threshold,
        names,
    )


def _is_regression(setup_or_model: Any) -> bool:
    """Check for a regression setup or a regression estimator."""
    if isinstance(setup_or_model, Setup):
        return setup_or_model.task is not None and setup_or_model.task.name == "regression"
    if "sklearn" not in sys.modules or not hasattr(setup_or_model, "predict"):
        return False
    from sklearn.base import is_regressor

    return bool(is_regressor(setup_or_model))


def _looks_like_probability(training_outputs: Floats) -> bool:
    """Check for a single output within 0 and 1."""
    return bool(training_outputs.shape[1] == 1 and training_outputs.min() >= 0 and training_outputs.max() <= 1)


def _required_change(start_outputs: Floats, training_outputs: Floats, by: float | None, target: GoalTarget) -> float:
    """Return the required change of a number: by default the median absolute deviation of the training outputs.

    Raises SetupError for a change that is not finite or zero, and for classes.
    """
    if len(start_outputs) > 1:
        raise SetupError(
            f"by is {by} and the model has {len(start_outputs)} outputs; expected one. Pass target= for a class."
        )
    if target is not None:
        raise SetupError(f"target is {target!r} and the output is a number; expected by=, its required change.")
    if by is None:
        by = float(np.median(np.abs(training_outputs - np.median(training_outputs)))) or 1.0
    if not np.isfinite(by) or by == 0:
        raise SetupError(f"by is {by}; expected a number other than 0. Pass the required change of the output.")
    return float(by)


def _resolve_target_class(target: GoalTarget, start_class: int, count: int, names: Sequence[str]) -> int | None:
    """Return the target class, None for any other; raise SetupError for the present or an unknown class."""
    if target is None:
        return None
    if isinstance(target, str) and target in names:
        target = list(names).index(target)
    if not isinstance(target, (int, np.integer)) or isinstance(target, bool) or not 0 <= target < count:
        raise SetupError(f"target is {target!r}; expected a class, 0 to {count - 1}. Pass a class or None.")
    if target == start_class:
        raise SetupError(f"target is {target!r}, which is already predicted; expected another class. Change it.")
    return int(target)


def _two_class_outputs(outputs: Tensor, probabilities: bool) -> Tensor:
    """Return outputs with one column per class; adds class 0 to a single output.

    The single output is the logit of class 1, so that class 0 has logit 0, or its probability.
    """
    if outputs.shape[1] > 1:
        return outputs
    return torch.cat([1 - outputs if probabilities else torch.zeros_like(outputs), outputs], 1)


def _class_pairs(scores: Tensor, first: ClassChoice, second: ClassChoice | None, labels: object) -> Tensor:
    """Return the two classes of each sample, rows × 2; raise SetupError for unknown and for equal classes."""
    first_classes = target_columns(scores, first, labels)
    second_classes = (
        _default_second_class(scores, first_classes, labels)
        if second is None
        else _second_class(scores, first_classes, second, labels)
    )
    if bool((first_classes == second_classes).any()):
        row = int((first_classes == second_classes).nonzero()[0])
        raise SetupError(
            f"second is class {int(second_classes[row])} for sample {row}, the same as first; expected another class. "
            "Pass second='runner-up' or a class."
        )
    return torch.stack([first_classes, second_classes], 1)


def _second_class(scores: Tensor, first_classes: Tensor, second: ClassChoice, labels: object) -> Tensor:
    return _runner_up(scores, first_classes) if second == "runner-up" else target_columns(scores, second, labels)


def _default_second_class(scores: Tensor, first_classes: Tensor, labels: object) -> Tensor:
    """Return the true class if it is another one, else the runner-up."""
    best = _runner_up(scores, first_classes)
    if labels is None:
        return best
    true_class = torch.as_tensor(true_classes(labels, len(scores)), device=scores.device)
    if true_class.is_floating_point() or true_class.shape != first_classes.shape:
        return best
    is_usable = (true_class >= 0) & (true_class < scores.shape[1]) & (true_class != first_classes)
    return torch.where(is_usable, true_class, best)


def _runner_up(scores: Tensor, first_classes: Tensor) -> Tensor:
    """Return the class with the highest score other than the first class."""
    return scores.scatter(1, first_classes.unsqueeze(1), -torch.inf).argmax(1)


def contrast_score(
    problem: Problem, first: ClassChoice, second: ClassChoice | None, probabilities: bool
) -> tuple[TargetScore, Tensor]:
    """Return the score difference of two classes as a target score, and the classes of each sample."""
    target_score = problem.target_score

    def scores(outputs: Tensor) -> Tensor:
        return _two_class_outputs(target_score.transform(outputs), probabilities or target_score.space == "probability")

    pairs = _class_pairs(scores(problem.outputs), first, second, problem.labels)
    distinct, pair_index = torch.unique(pairs, dim=0, return_inverse=True)

    def margins(outputs: Tensor) -> Tensor:
        class_scores = scores(outputs)
        return class_scores[:, distinct[:, 0]] - class_scores[:, distinct[:, 1]]

    return TargetScore(pair_index, target_score.space, margins), pairs
