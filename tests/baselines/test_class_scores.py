"""Tests of class scores that did not see the label, against fits that leave the row out one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from nbdebug.baselines.class_scores import OutOfFoldScorer, feature_views
from nbdebug.baselines.input_features import standardize_columns

IRIS, GENERATOR = load_iris(), np.random.default_rng(0)
X = standardize_columns(IRIS.data.astype(np.float32) + np.random.default_rng(0).normal(0, 0.01, IRIS.data.shape))


def test_linear_scores_are_those_of_fits_without_the_row() -> None:
    x, y, rows = X[:60].astype(np.float64), IRIS.target[:60], range(0, 60, 7)
    targets = np.eye(2)[y]
    scores = OutOfFoldScorer([X[:60]]).scores(y, 2, with_trees=False)[2]
    fits = {penalty: [] for penalty in (1, 10, 100, 1000)}
    for row in rows:
        kept = np.arange(60) != row
        for penalty, predictions in fits.items():
            predictions.append(Ridge(alpha=penalty).fit(x[kept], targets[kept]).predict(x[[row]])[0])
    assert min(np.abs(np.array(values) - scores[rows]).max() for values in fits.values()) < 1e-2


def test_neighbor_votes_exclude_the_row() -> None:
    scores = OutOfFoldScorer([X]).scores(IRIS.target, 3, with_trees=False)[3]
    for row in range(0, 150, 11):
        kept = np.arange(150) != row
        model = KNeighborsClassifier(12, weights="distance").fit(X[kept], IRIS.target[kept])
        expected = np.log(np.maximum(model.predict_proba(X[[row]])[0], 0.01))
        assert np.allclose(scores[row], expected, atol=2e-2)


@pytest.mark.parametrize("x", [X, GENERATOR.normal(size=(120, 3072)), GENERATOR.normal(size=(190, 200))])
def test_no_learner_predicts_random_labels(x: Any) -> None:
    labels = np.random.default_rng(1).integers(0, 3, len(x))
    for scores in OutOfFoldScorer([standardize_columns(np.asarray(x, np.float32))]).scores(labels, 3):
        assert (scores.argmax(1) == labels).mean() < 0.5


def test_spectra_of_series_do_not_depend_on_the_phase() -> None:
    steps = torch.arange(128.0)
    phases = 6.28 * torch.rand(50, 1, generator=torch.Generator().manual_seed(0))
    series = torch.sin(steps * 2 * torch.pi / 16 + phases)[..., None]
    faster = torch.sin(steps * 2 * torch.pi / 8 + phases)[..., None]
    values, spectra = feature_views([torch.cat([series, faster])])
    assert values.shape == (100, 128)
    between = np.abs(spectra[:50].mean(0) - spectra[50:].mean(0)).max()
    assert between > 10 * spectra[:50].std(0)[np.abs(spectra[:50].mean(0) - spectra[50:].mean(0)).argmax()]
