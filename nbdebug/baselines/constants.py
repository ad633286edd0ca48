"""Answers that are the same for every row, and the model's own when it must not look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nbdebug.baselines.scored import LARGEST, Floats, Rows, Scored, class_scores, of_labels, of_values

# Rows added to each class, so that none is impossible: Krichevsky and Trofimov 1981, doi:10.1109/TIT.1981.1056331.
HALF = 0.5
BLIND = "your model's own answers, dealt out to other rows at random"


def constant_classes(rows: Rows, target: Any, known: Any, classes: Sequence[str]) -> Iterator[Scored]:
    """The commonest class of the ``known`` labels, and a guess with their frequencies."""
    counts = np.bincount(known, minlength=len(classes)).astype(np.float64)
    top = int(counts.argmax())
    yield of_labels("majority", f"always {classes[top]}", rows, target, np.full(len(target), top))
    prior = (counts + HALF) / (counts + HALF).sum()
    own = prior[target]
    yield Scored("prior", "a guess by how common each class is", rows, class_scores(own, target, -np.log(own)))


def constant_values(rows: Rows, target: Floats, known: Floats) -> Iterator[Scored]:
    """The mean and the median of the ``known`` targets."""
    for name, value in (("mean", float(np.mean(known))), ("median", float(np.median(known)))):
        yield of_values(name, f"always {value:.4g}", rows, target, value)


def blind_classes(rows: Rows, target: Any, label: Any, chances: Any) -> Scored:
    """What the answers of a model are worth when each row is given that of another row.

    This is the mean over all ways to shuffle the inputs, exactly, since a model in eval mode answers each row alone.
    """
    others = max(len(rows) - 1, 1)
    counts = np.bincount(label[label >= 0], minlength=int(target.max(initial=0)) + 1)
    hits = (counts[target] - (label == target)) / others
    loss = None
    if chances is not None:
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.asarray(chances, np.float64)), -LARGEST)
        loss = -(logs.sum(0)[target] - logs[np.arange(len(target)), target]) / others
    return Scored("blind", BLIND, rows, class_scores(hits, target, loss))


def blind_values(rows: Rows, target: Floats, value: Floats) -> Scored:
    """The same for real numbers."""
    others, ordered = max(len(rows) - 1, 1), np.sort(value)
    square = len(value) * (target**2) - 2 * target * value.sum() + (value**2).sum()
    at = np.searchsorted(ordered, target)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    below, above = target * at - sums[at], sums[-1] - sums[at] - target * (len(value) - at)
    own = target - value
    scores = {"mean squared error": square - own**2, "mean absolute error": below + above - np.abs(own)}
    return Scored("blind", BLIND, rows, {name: np.maximum(one, 0) / others for name, one in scores.items()})
