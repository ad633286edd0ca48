"""Two classes for each sample: the one that is asked about, and the one it is held against."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nbdebug.attribution.problem import Problem
from nbdebug.attribution.scores import Scored, chosen, true_classes
from nbdebug.exceptions import SetupError

Side = int | str | Sequence[int]


def as_classes(outputs: Tensor, probabilities: bool) -> Tensor:
    """Outputs with a column for each class; of a single output that of class 0 is added.

    A single one counts as the logit of class 1, so class 0 has 0, or as its probability.
    """
    if outputs.shape[1] > 1:
        return outputs
    return torch.cat([1 - outputs if probabilities else torch.zeros_like(outputs), outputs], 1)


def pairs_of(scores: Tensor, first: Side, second: Side | None, labels: object) -> Tensor:
    """The two classes of each sample, rows × 2; raises SetupError for one that there is not, and for equal ones."""
    ours = chosen(scores, first, labels)
    theirs = rival(scores, ours, labels) if second is None else other(scores, ours, second, labels)
    if bool((ours == theirs).any()):
        row = int((ours == theirs).nonzero()[0])
        raise SetupError(
            f"second is class {int(theirs[row])} for sample {row}, which is also the first; expected another class. "
            "Pass second='runner-up' or a class."
        )
    return torch.stack([ours, theirs], 1)


def other(scores: Tensor, ours: Tensor, second: Side, labels: object) -> Tensor:
    """The second class as it was asked for."""
    return runner_up(scores, ours) if second == "runner-up" else chosen(scores, second, labels)


def rival(scores: Tensor, ours: Tensor, labels: object) -> Tensor:
    """The true class where it is another one, else the one with the highest score beside ours."""
    best = runner_up(scores, ours)
    if labels is None:
        return best
    truth = torch.as_tensor(true_classes(labels, len(scores)), device=scores.device)
    if truth.is_floating_point() or truth.shape != ours.shape:
        return best
    known = (truth >= 0) & (truth < scores.shape[1]) & (truth != ours)
    return torch.where(known, truth, best)


def runner_up(scores: Tensor, ours: Tensor) -> Tensor:
    """The class with the highest score that is not ours."""
    return scores.scatter(1, ours.unsqueeze(1), -torch.inf).argmax(1)


def against(problem: Problem, first: Side, second: Side | None, probabilities: bool) -> tuple[Scored, Tensor]:
    """How the outputs are read so that one class is held against another, and the two classes of each sample."""
    before = problem.scored

    def scores(outputs: Tensor) -> Tensor:
        return as_classes(before.change(outputs), probabilities or before.space == "probability")

    pairs = pairs_of(scores(problem.outputs), first, second, problem.labels)
    distinct, place = torch.unique(pairs, dim=0, return_inverse=True)

    def margins(outputs: Tensor) -> Tensor:
        found = scores(outputs)
        return found[:, distinct[:, 0]] - found[:, distinct[:, 1]]

    return Scored(place, before.space, margins), pairs
