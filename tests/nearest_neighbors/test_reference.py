"""What training samples tell of other points: thin regions, and labels that the neighbors do not share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.nearest_neighbors import TrainingReference, default_layer
from nbdebug.predictions.embeddings import LayerInput

RANDOM = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
LABELS = RANDOM.integers(0, 3, 900).astype(np.int32)
POINTS = (CENTERS[LABELS] + RANDOM.normal(size=(900, 2))).astype(np.float32)


def reference(labels: np.ndarray = LABELS) -> TrainingReference:
    return TrainingReference(POINTS, labels, "euclidean", 8)


def test_training_samples_are_spread_evenly_over_their_own_ranks() -> None:
    ranks = reference().find_neighbors(POINTS, LABELS, own=np.arange(900)).distance_rank
    assert np.quantile(ranks, (0.1, 0.5, 0.9)) == pytest.approx((0.1, 0.5, 0.9), abs=0.01)


def test_a_region_without_training_samples_is_thin() -> None:
    near = reference().find_neighbors(np.array([[0, 0], [3, 3], [30, 30]], np.float32))
    assert near.distance_rank[0] < 0.3
    assert near.distance_rank[1] > 0.9
    assert near.distance_rank[2] == 1
    assert near.label_disagreement is None


def test_wrong_labels_have_neighbors_with_another() -> None:
    wrong = RANDOM.choice(900, 45, replace=False)
    labels = LABELS.copy()
    labels[wrong] = (labels[wrong] + 1) % 3
    others = reference(labels).find_neighbors(POINTS, labels, own=np.arange(900)).label_disagreement
    assert others is not None
    assert others[wrong].mean() > 0.8
    assert np.delete(others, wrong).mean() < 0.1


def test_rows_without_a_label_have_no_share_and_count_for_nobody() -> None:
    labels = LABELS.copy()
    labels[::2] = -1
    others = reference(labels).find_neighbors(POINTS, labels, own=np.arange(900)).label_disagreement
    assert others is not None
    assert np.isnan(others[::2]).all()
    assert np.nanmean(others) < 0.1


def test_more_neighbors_than_training_samples_are_refused() -> None:
    with pytest.raises(SetupError, match="k is 8; expected 1 to 4"):
        TrainingReference(POINTS[:5])


def test_the_usual_layer_is_the_input_of_the_last_linear_one() -> None:
    assert default_layer(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))) == LayerInput("2")
    assert default_layer(nn.Linear(2, 3)) == LayerInput("")
    assert default_layer(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(1))) == LayerInput(
        "1"
    )
    with pytest.raises(SetupError, match="no linear layer"):
        default_layer(nn.Sequential(nn.Embedding(3, 2), nn.Flatten()))
    assert torch.is_grad_enabled()
