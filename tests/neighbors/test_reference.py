"""What training samples tell of other points: thin regions, and labels that the neighbors do not share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.neighbors import Reference
from nbdebug.neighbors.layer import usual_layer
from nbdebug.predictions.embedding import Entry

RANDOM = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
LABELS = RANDOM.integers(0, 3, 900).astype(np.int32)
POINTS = (CENTERS[LABELS] + RANDOM.normal(size=(900, 2))).astype(np.float32)


def reference(labels: np.ndarray = LABELS) -> Reference:
    return Reference(POINTS, labels, "euclidean", 8)


def test_training_samples_are_spread_evenly_over_their_own_ranks() -> None:
    ranks = reference().near(POINTS, LABELS, own=np.arange(900)).farther
    assert np.quantile(ranks, (0.1, 0.5, 0.9)) == pytest.approx((0.1, 0.5, 0.9), abs=0.01)


def test_a_region_without_training_samples_is_thin() -> None:
    near = reference().near(np.array([[0, 0], [3, 3], [30, 30]], np.float32))
    assert near.farther[0] < 0.3
    assert near.farther[1] > 0.9
    assert near.farther[2] == 1
    assert near.others is None


def test_wrong_labels_have_neighbors_with_another() -> None:
    wrong = RANDOM.choice(900, 45, replace=False)
    labels = LABELS.copy()
    labels[wrong] = (labels[wrong] + 1) % 3
    others = reference(labels).near(POINTS, labels, own=np.arange(900)).others
    assert others is not None
    assert others[wrong].mean() > 0.8
    assert np.delete(others, wrong).mean() < 0.1


def test_rows_without_a_label_have_no_share_and_count_for_nobody() -> None:
    labels = LABELS.copy()
    labels[::2] = -1
    others = reference(labels).near(POINTS, labels, own=np.arange(900)).others
    assert others is not None
    assert np.isnan(others[::2]).all()
    assert np.nanmean(others) < 0.1


def test_more_neighbors_than_training_samples_are_refused() -> None:
    with pytest.raises(SetupError, match="k is 8; expected 1 to 4"):
        Reference(POINTS[:5])


def test_the_usual_layer_is_the_input_of_the_last_linear_one() -> None:
    assert usual_layer(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))) == Entry("2")
    assert usual_layer(nn.Linear(2, 3)) == Entry("")
    assert usual_layer(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(1))) == Entry("1")
    with pytest.raises(SetupError, match="no linear layer"):
        usual_layer(nn.Sequential(nn.Embedding(3, 2), nn.Flatten()))
    assert torch.is_grad_enabled()
