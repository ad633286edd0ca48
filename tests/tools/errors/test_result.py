"""The methods that give the numbers of the panels as data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_fscore_support, roc_auc_score

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.result import Errors

NAMES = ("ant", "bee", "cat")


def scores(rows: int = 400, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.integers(0, classes, rows)
    logits = random.normal(size=(rows, classes)).astype(np.float32)
    logits[np.arange(rows), target] += 1.2
    return logits, target


def errors(predictions: object, target: object, **options: object) -> Errors:
    return Errors(ClassificationTable.from_arrays(predictions, target, **options), "made here")  # type: ignore[arg-type]


def test_classes_and_pairs_are_those_of_scikit_learn() -> None:
    logits, target = scores()
    found = errors(logits, target, class_names=NAMES)
    frame = found.per_class()
    wanted = precision_recall_fscore_support(target, logits.argmax(1))
    for name, values in zip(("precision", "recall", "f1", "support"), wanted, strict=True):
        np.testing.assert_allclose(frame[name], values, rtol=1e-15)
    assert list(frame.index) == list(NAMES)
    matrix = confusion_matrix(target, logits.argmax(1))
    for row in found.pairs().itertuples():
        assert row.count == matrix[NAMES.index(row.target), NAMES.index(row.prediction)]
    assert found.pairs()["count"].sum() == matrix.sum() - np.trace(matrix)
    assert len(found.pairs(2)) == 2


def test_curves_of_one_class_are_those_of_scikit_learn() -> None:
    logits, target = scores()
    found = errors(logits, target, class_names=NAMES)
    chance = torch.tensor(logits).softmax(1).numpy()[:, 2]
    curves = found.curves("cat")
    assert "chance of cat" not in found.table.columns
    assert found.thresholds("cat").positives == (target == 2).sum()
    np.testing.assert_allclose(found.table.columns["chance of cat"], chance, rtol=1e-6)
    exact = found.table.columns["chance of cat"]
    assert curves.roc.area == pytest.approx(roc_auc_score(target == 2, exact), rel=1e-15)
    assert curves.precision_recall.area == pytest.approx(average_precision_score(target == 2, exact), rel=1e-15)
    assert found.curves(2).roc.area == curves.roc.area
    total = found.rows(ranges={"chance of cat": (0.5, None)}, count=1000)
    assert len(total) == (exact >= 0.5).sum()


def test_of_two_classes_the_second_is_meant() -> None:
    logits, target = scores(classes=2)
    found = errors(logits, target)
    assert found.curves().roc.area == pytest.approx(roc_auc_score(target, found.table.columns["chance"]), rel=1e-15)
    assert found.curves(0).roc.area == pytest.approx(found.curves().roc.area)
    row = found.thresholds().to_frame().query("threshold == 0.5").iloc[0]
    assert row.tp + row.tn == (logits.argmax(1) == target).sum()


def test_rows_without_target_or_score_do_not_count() -> None:
    logits, target = scores()
    logits[0, 1], target[1] = np.nan, -1
    found, rest = errors(logits, target), errors(logits[2:], target[2:])
    assert found.curves(1).roc.area == rest.curves(1).roc.area
    assert found.calibration().calibration_error == rest.calibration().calibration_error
    assert found.calibration().counts.sum() == 398
    assert found.temperature().rows == 398
    assert found.thresholds(1).positives + found.thresholds(1).negatives == 398


def test_calibration_is_of_confidence_or_of_a_class() -> None:
    logits, target = scores(2000)
    found = errors(3 * logits, target)
    assert found.calibration().is_miscalibrated
    assert found.calibration().is_overconfident
    assert found.temperature().helps
    assert found.temperature().temperature == pytest.approx(
        3 * errors(logits, target).temperature().temperature, rel=0.01
    )
    chance, one = torch.tensor(3 * logits).softmax(1)[:, 0].numpy(), found.calibration(0)
    assert one.counts @ one.accuracy == pytest.approx((target == 0).sum())
    assert one.counts @ one.confidence == pytest.approx(chance.sum(), rel=1e-5)


def test_probabilities_and_logits_have_one_temperature() -> None:
    logits, target = scores()
    chances = torch.tensor(logits).softmax(1)
    same = errors(chances, target).temperature()
    assert same.temperature == pytest.approx(errors(logits, target).temperature().temperature, rel=1e-3)


def test_labels_alone_have_no_curve() -> None:
    logits, target = scores()
    found = errors(logits.argmax(1), target)
    assert len(found.per_class()) == 3
    for asked in (lambda: found.curves(0), lambda: found.thresholds(0), found.calibration, found.temperature):
        with pytest.raises(SetupError, match="expected"):
            asked()


def test_a_class_that_there_is_not_is_refused() -> None:
    found = errors(*scores(), class_names=NAMES)
    for of in ("dog", 3, -1, None):
        with pytest.raises(SetupError, match=r"expected one of"):
            found.curves(of)
    with pytest.raises(SetupError, match=r"0 of 400 rows"):
        errors(scores()[0], np.zeros(400, int)).curves(1)


def test_many_classes_need_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.predictions.classification.MAX_STORED_SCORES", 100)
    found = errors(*scores(classes=8))
    assert found.table.scores is None  # type: ignore[attr-defined]
    assert found.calibration().counts.sum() == 400
    for asked in (lambda: found.curves(3), found.temperature):
        with pytest.raises(SetupError, match="scores"):
            asked()
    assert errors(*scores(classes=3)).curves(1).positives > 0
