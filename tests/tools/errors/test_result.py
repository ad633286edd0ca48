"""Tests of the numbers per class in a result of the error browser, and of its calibration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_fscore_support, roc_auc_score

from nbdebug.exceptions import SetupError
from tests.tools.errors.random_errors import CLASS_NAMES, make_errors, random_scores


def test_per_class_and_pairs_match_scikit_learn() -> None:
    logits, target = random_scores()
    errors = make_errors(logits, target, class_names=CLASS_NAMES)
    frame = errors.per_class()
    expected = precision_recall_fscore_support(target, logits.argmax(1))
    for name, values in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        np.testing.assert_allclose(frame[name], values, rtol=1e-15)
    assert list(frame.index) == list(CLASS_NAMES)
    matrix = confusion_matrix(target, logits.argmax(1))
    for row in errors.pairs().itertuples():
        assert row.count == matrix[CLASS_NAMES.index(row.target), CLASS_NAMES.index(row.prediction)]
    assert errors.pairs()["count"].sum() == matrix.sum() - np.trace(matrix)
    assert len(errors.pairs(2)) == 2


def test_curves_of_class_match_scikit_learn() -> None:
    logits, target = random_scores()
    errors = make_errors(logits, target, class_names=CLASS_NAMES)
    probability = torch.tensor(logits).softmax(1).numpy()[:, 2]
    curves = errors.curves("cat")
    assert "chance of cat" not in errors.table.columns
    assert errors.thresholds("cat").positives == (target == 2).sum()
    np.testing.assert_allclose(errors.table.columns["chance of cat"], probability, rtol=1e-6)
    stored = errors.table.columns["chance of cat"]
    assert curves.roc.area == pytest.approx(roc_auc_score(target == 2, stored), rel=1e-15)
    assert curves.precision_recall.area == pytest.approx(average_precision_score(target == 2, stored), rel=1e-15)
    assert errors.curves(2).roc.area == curves.roc.area
    likely_rows = errors.rows(ranges={"chance of cat": (0.5, None)}, count=1000)
    assert len(likely_rows) == (stored >= 0.5).sum()


def test_curves_and_thresholds_default_to_second_of_two_classes() -> None:
    logits, target = random_scores(classes=2)
    errors = make_errors(logits, target)
    assert errors.curves().roc.area == pytest.approx(roc_auc_score(target, errors.table.columns["chance"]), rel=1e-15)
    assert errors.curves(0).roc.area == pytest.approx(errors.curves().roc.area)
    row = errors.thresholds().to_frame().query("threshold == 0.5").iloc[0]
    assert row.tp + row.tn == (logits.argmax(1) == target).sum()


def test_rows_without_target_or_score_are_excluded() -> None:
    logits, target = random_scores()
    logits[0, 1], target[1] = np.nan, -1
    errors, complete = make_errors(logits, target), make_errors(logits[2:], target[2:])
    assert errors.curves(1).roc.area == complete.curves(1).roc.area
    assert errors.calibration().calibration_error == complete.calibration().calibration_error
    assert errors.calibration().counts.sum() == 398
    assert errors.temperature().rows == 398
    assert errors.thresholds(1).positives + errors.thresholds(1).negatives == 398


def test_calibration_of_tripled_logits_is_overconfident_and_exact_per_class() -> None:
    logits, target = random_scores(2000)
    errors = make_errors(3 * logits, target)
    assert errors.calibration().is_miscalibrated
    assert errors.calibration().is_overconfident
    assert errors.temperature().helps
    assert errors.temperature().temperature == pytest.approx(
        3 * make_errors(logits, target).temperature().temperature, rel=0.01
    )
    probability, first_class = torch.tensor(3 * logits).softmax(1)[:, 0].numpy(), errors.calibration(0)
    assert first_class.counts @ first_class.accuracy == pytest.approx((target == 0).sum())
    assert first_class.counts @ first_class.confidence == pytest.approx(probability.sum(), rel=1e-5)


def test_temperature_of_probabilities_equals_temperature_of_logits() -> None:
    logits, target = random_scores()
    probabilities = torch.tensor(logits).softmax(1)
    temperature = make_errors(probabilities, target).temperature()
    assert temperature.temperature == pytest.approx(make_errors(logits, target).temperature().temperature, rel=1e-3)


def test_curves_and_calibration_of_labels_without_scores_raise_setup_error() -> None:
    logits, target = random_scores()
    errors = make_errors(logits.argmax(1), target)
    assert len(errors.per_class()) == 3
    for method in (lambda: errors.curves(0), lambda: errors.thresholds(0), errors.calibration, errors.temperature):
        with pytest.raises(SetupError, match="expected"):
            method()


def test_curves_of_unknown_or_absent_class_raise_setup_error() -> None:
    errors = make_errors(*random_scores(), class_names=CLASS_NAMES)
    for unknown in ("dog", 3, -1, None):
        with pytest.raises(SetupError, match=r"expected one of"):
            errors.curves(unknown)
    with pytest.raises(SetupError, match=r"0 of 400 rows"):
        make_errors(random_scores()[0], np.zeros(400, int)).curves(1)


def test_curves_and_temperature_raise_when_not_all_scores_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.predictions.classification.MAX_STORED_SCORES", 100)
    errors = make_errors(*random_scores(classes=8))
    assert errors.table.scores is None  # type: ignore[attr-defined]
    assert errors.calibration().counts.sum() == 400
    for method in (lambda: errors.curves(3), errors.temperature):
        with pytest.raises(SetupError, match="scores"):
            method()
    assert make_errors(*random_scores(classes=3)).curves(1).positives > 0
