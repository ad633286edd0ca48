"""Tests of TrainingReference and default_layer()."""

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


def make_reference(labels: np.ndarray = LABELS) -> TrainingReference:
    return TrainingReference(POINTS, labels, "euclidean", 8)


def test_distance_ranks_of_training_samples_are_uniform() -> None:
    ranks = make_reference().find_neighbors(POINTS, LABELS, own=np.arange(900)).distance_rank
    assert np.quantile(ranks, (0.1, 0.5, 0.9)) == pytest.approx((0.1, 0.5, 0.9), abs=0.01)


def test_distance_rank_grows_with_distance_from_training_samples() -> None:
    neighbors = make_reference().find_neighbors(np.array([[0, 0], [3, 3], [30, 30]], np.float32))
    assert neighbors.distance_rank[0] < 0.3
    assert neighbors.distance_rank[1] > 0.9
    assert neighbors.distance_rank[2] == 1
    assert neighbors.label_disagreement is None


def test_label_disagreement_is_high_for_wrong_labels() -> None:
    wrong = RANDOM.choice(900, 45, replace=False)
    labels = LABELS.copy()
    labels[wrong] = (labels[wrong] + 1) % 3
    disagreement = make_reference(labels).find_neighbors(POINTS, labels, own=np.arange(900)).label_disagreement
    assert disagreement is not None
    assert disagreement[wrong].mean() > 0.8
    assert np.delete(disagreement, wrong).mean() < 0.1


def test_label_disagreement_excludes_rows_without_label() -> None:
    labels = LABELS.copy()
    labels[::2] = -1
    disagreement = make_reference(labels).find_neighbors(POINTS, labels, own=np.arange(900)).label_disagreement
    assert disagreement is not None
    assert np.isnan(disagreement[::2]).all()
    assert np.nanmean(disagreement) < 0.1


def test_training_reference_with_too_few_samples_raises_setup_error() -> None:
    with pytest.raises(SetupError, match="k is 8; expected 1 to 4"):
        TrainingReference(POINTS[:5])


def test_default_layer_is_input_of_last_linear_or_convolutional_layer() -> None:
    assert default_layer(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))) == LayerInput("2")
    assert default_layer(nn.Linear(2, 3)) == LayerInput("")
    assert default_layer(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(1))) == LayerInput(
        "1"
    )
    with pytest.raises(SetupError, match="no linear layer"):
        default_layer(nn.Sequential(nn.Embedding(3, 2), nn.Flatten()))
    assert torch.is_grad_enabled()
