"""Tests of labels that are compared with the ratings of several raters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.statistics.rater_agreement import fit_rater_model, krippendorff_alpha

from .setups import profile_of


def rate(labels: np.ndarray, accuracies: tuple[float, ...], classes: int = 4) -> np.ndarray:
    """Ratings of raters that are right with some probability, a tenth of them missing."""
    generator = np.random.default_rng(0)
    columns = []
    for accuracy in accuracies:
        other = (labels + generator.integers(1, classes, len(labels))) % classes
        columns.append(np.where(generator.random(len(labels)) < accuracy, labels, other))
    ratings = np.stack(columns, 1).astype(float)
    ratings[generator.random(ratings.shape) < 0.1] = np.nan
    return ratings


def test_agreement_equals_the_published_example() -> None:
    # Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, example C: alpha = 0.743.
    text = ["11.1", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", ".555", "..11", ".3.."]
    ratings = np.array([[-1 if mark == "." else int(mark) - 1 for mark in row] for row in text])
    assert krippendorff_alpha(ratings, 5) == pytest.approx(0.743, abs=5e-4)


def test_accuracies_of_raters_are_estimated() -> None:
    labels = np.random.default_rng(1).integers(0, 4, 600)
    accuracies = (0.95, 0.85, 0.6, 0.9)
    ratings = np.nan_to_num(rate(labels, accuracies), nan=-1).astype(int)
    model = fit_rater_model(ratings, 4)
    np.testing.assert_allclose(model.accuracy, accuracies, atol=0.04)
    assert (model.probabilities.argmax(1) == labels).mean() > 0.97


def test_labels_against_the_consensus_are_listed_and_dropped() -> None:
    labels = torch.arange(300) % 4
    ratings = rate(labels.numpy(), (0.95, 0.9, 0.9, 0.9))
    changed = labels.clone()
    changed[:12] = (labels[:12] + 1) % 4
    profile = profile_of(TensorDataset(torch.rand(300, 3), changed), ratings=ratings)
    review = profile.labels.raters[0]
    listed = {item.index for item in review.contradicted}
    assert len(listed & set(range(12))) >= 11
    assert len(listed) <= 15
    assert review.is_reliable
    assert set(profile.drop_list("train", ["raters"])) == listed
    assert "labels against raters" in profile.to_text()


def test_other_forms_of_ratings_are_refused() -> None:
    dataset = TensorDataset(torch.rand(40, 3), torch.arange(40) % 2)
    for ratings, expected in (
        (np.zeros((40, 1)), "two raters"),
        (np.full((40, 2), 0.5), "has fractions"),
        ("x", "no numbers"),
    ):
        with pytest.raises(SetupError, match=expected):
            profile_of(dataset, ratings=ratings)
