"""Inputs and labels of which one is in the text order of its numbers: 1, 10, 11, 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Subset

from nbdebug.baselines.reference_learner import ReferenceLearner
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style

_MIN_ROWS, _MIN_GAIN = 60, 0.3  # of an accuracy or an explained variance


@dataclass(frozen=True)
class TextOrder:
    """How well labels are predicted as they are, and with the inputs or the labels put from text order into order."""

    sorted_part: str
    metric: str
    score: float
    score_in_order: float
    rows: int


@slow_measurement
def text_order(setup: Setup, reference: Reference) -> TextOrder | None:
    """The part of the training samples that is in text order, if the labels are predicted only without it."""
    if not is_map_style(setup.train_loader):
        raise NotChecked("the training data cannot be read by index")
    rows = reference.rows("train")
    score = rows.learner.kernel_ridge.score
    if score - rows.targets.constant_score > _MIN_GAIN:
        return None
    indices, count = _stored_indices(setup.train_loader.dataset, rows.indices)
    row_of = {index: row for row, index in enumerate(indices)}
    best: TextOrder | None = None
    for first_number in (0, 1):
        places = _text_places(count, first_number)
        numbers = np.argsort(places).tolist()
        for part, partners in (("inputs", numbers), ("labels", places)):
            pairs = [(row, row_of[partners[index]]) for index, row in row_of.items() if partners[index] in row_of]
            if len(pairs) < _MIN_ROWS:
                continue
            inputs, labels = np.array(pairs).T
            targets = rows.targets.take(labels)
            is_complete = len(pairs) == len(row_of)  # then the bases of the rows serve again
            learner = (
                rows.learner.with_targets(targets) if is_complete else ReferenceLearner(rows.features[inputs], targets)
            )
            in_order = learner.kernel_ridge.score
            if in_order - learner.targets.constant_score > _MIN_GAIN and (not best or in_order > best.score_in_order):
                best = TextOrder(part, rows.targets.metric, score, in_order, len(pairs))
    return best


def _text_places(count: int, first_number: int) -> list[int]:
    """Return the place of each number among ``count`` consecutive ones that are sorted as texts."""
    order = sorted(range(count), key=lambda index: str(first_number + index))
    return [int(place) for place in np.argsort(order)]


def _stored_indices(dataset: Any, indices: Sequence[int]) -> tuple[list[int], int]:
    """Return the indices of some samples in the dataset that stores them, inside its subsets, and its length."""
    stored = list(indices)
    while isinstance(dataset, Subset):
        stored = [int(dataset.indices[index]) for index in stored]
        dataset = dataset.dataset
    return stored, len(dataset)
