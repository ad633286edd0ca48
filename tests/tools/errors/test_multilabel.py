"""Tests of the error browser with tables of several labels per row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from nbdebug.predictions.multilabel import MultiLabelTable
from nbdebug.tools.errors.panels.classes import state
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import Errors

LABEL_NAMES = ("sky", "sea", "sun")


def make_errors() -> tuple[Errors, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    target = random.random((300, 3)) < [0.2, 0.5, 0.7]
    probability = (1 / (1 + np.exp(-(random.normal(size=(300, 3)) + 1.5 * target - 0.7)))).astype(np.float32)
    table = MultiLabelTable.from_arrays(probability, target, class_names=LABEL_NAMES, threshold=[0.4, 0.5, 0.6])
    return Errors(table, "test predictions"), probability, target


def test_per_class_and_curves_of_multilabel_table_match_scikit_learn() -> None:
    errors, probability, target = make_errors()
    predicted = probability >= np.array([0.4, 0.5, 0.6], np.float32)
    expected = precision_recall_fscore_support(target, predicted)
    for name, values in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        np.testing.assert_allclose(errors.per_class()[name], values, rtol=1e-14)
    for i, name in enumerate(LABEL_NAMES):
        assert errors.curves(name).roc.area == pytest.approx(roc_auc_score(target[:, i], probability[:, i]), rel=1e-14)


def test_thresholds_default_to_threshold_of_label() -> None:
    errors, probability, target = make_errors()
    thresholds = errors.thresholds("sun")
    row = thresholds.to_frame().set_index("threshold").loc[thresholds.default]
    assert thresholds.default == np.float32(0.6)
    assert row.tp == (target[:, 2] & (probability[:, 2] >= np.float32(0.6))).sum()
    rows = errors.rows(ranges={"chance of sun": (thresholds.default, None)}, count=1000)
    assert len(rows) == row.tp + row.fp


def test_classes_panel_of_multilabel_table_counts_match_queried_cells() -> None:
    errors, probability, target = make_errors()
    assert "classes" in [panel.name for panel in all_panels() if panel.fits(errors)]
    sea_state = state(errors, of="sea")
    assert sea_state["apart"]
    assert sea_state["pairs"] == []
    assert sea_state["curves"]["sweep"]["column"] == "chance of sea"
    row = next(row for row in sea_state["classes"] if row["name"] == "sea")
    assert row["missed"] == (target[:, 1] & (probability[:, 1] < 0.5)).sum()
    for cell, count in (((1, 1), row["missed"]), ((1, 2), row["taken"])):
        answer = errors.answer({"kind": "rows", "query": {"cells": [cell]}})
        assert answer["total"] == count
