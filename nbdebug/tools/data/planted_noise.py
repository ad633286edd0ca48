"""The number of wrong labels that would be noticed, measured by planting some in copies of the labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.class_scores import OutOfFoldScorer
from nbdebug.statistics.label_noise import estimate_label_noise

_SHARES, _PLANTINGS, _MIN_NOTICED = (0.02, 0.05, 0.1, 0.2), 10, 9


@dataclass(frozen=True)
class PlantedNoise:
    """A trial in which a ``share`` of the labels of a copy is replaced at random by another class.

    ``noticed`` of ``repetitions`` copies would have been reported; ``listed`` is the mean share of the planted labels
    that are listed as suspects.
    """

    share: float
    noticed: int
    repetitions: int
    listed: float

    @property
    def is_noticeable(self) -> bool:
        """True if nine of ten copies would have been reported."""
        return self.noticed >= _MIN_NOTICED


def plant_noise(
    scorer: OutOfFoldScorer, labels: NDArray[np.int64], classes: int, generator: np.random.Generator
) -> Iterator[PlantedNoise]:
    """Yield what is noticed of ever larger shares of planted wrong labels, until nine of ten copies are noticed.

    The learners are those that need no new fit, so that the real check, which also grows trees, notices more.
    """
    for share in _SHARES:
        planted = _plant_share(scorer, labels, classes, share, generator)
        yield planted
        if planted.is_noticeable:
            return


def _plant_share(
    scorer: OutOfFoldScorer, labels: NDArray[np.int64], classes: int, share: float, generator: np.random.Generator
) -> PlantedNoise:
    noticed, listed = 0, []
    for copy in range(_PLANTINGS):
        if copy - noticed > _PLANTINGS - _MIN_NOTICED:
            break  # nine of ten cannot be reached
        rows = generator.permutation(len(labels))[: max(round(share * len(labels)), 1)]
        changed = labels.copy()
        changed[rows] = (labels[rows] + generator.integers(1, classes, len(rows))) % classes
        noise = estimate_label_noise(scorer.scores(changed, classes, with_trees=False), changed, is_quick=True)
        noticed += noise.looks_wrong
        listed.append(float(noise.is_suspect[rows].mean()))
    return PlantedNoise(share, noticed, len(listed), float(np.mean(listed)))
