"""Tables of several labels a row: their curves, thresholds and panel, as those of classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from nbdebug.predictions.multilabel import MultiLabelTable
from nbdebug.tools.errors.panels.classes import state
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import Errors

NAMES = ("sky", "sea", "sun")


def made() -> tuple[Errors, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    target = random.random((300, 3)) < [0.2, 0.5, 0.7]
    chance = (1 / (1 + np.exp(-(random.normal(size=(300, 3)) + 1.5 * target - 0.7)))).astype(np.float32)
    table = MultiLabelTable.from_arrays(chance, target, class_names=NAMES, threshold=[0.4, 0.5, 0.6])
    return Errors(table, "made here"), chance, target


def test_each_label_has_its_shares_and_curves() -> None:
    errors, chance, target = made()
    said = chance >= np.array([0.4, 0.5, 0.6], np.float32)
    wanted = precision_recall_fscore_support(target, said)
    for name, values in zip(("precision", "recall", "f1", "support"), wanted, strict=True):
        np.testing.assert_allclose(errors.per_class()[name], values, rtol=1e-14)
    for i, name in enumerate(NAMES):
        assert errors.curves(name).roc.area == pytest.approx(roc_auc_score(target[:, i], chance[:, i]), rel=1e-14)


def test_a_threshold_begins_at_that_of_its_label() -> None:
    errors, chance, target = made()
    found = errors.thresholds("sun")
    row = found.to_frame().set_index("threshold").loc[found.default]
    assert found.default == np.float32(0.6)
    assert row.tp == (target[:, 2] & (chance[:, 2] >= np.float32(0.6))).sum()
    rows = errors.rows(ranges={"chance of sun": (found.default, None)}, count=1000)
    assert len(rows) == row.tp + row.fp


def test_the_panel_counts_and_leads_to_cells() -> None:
    errors, chance, target = made()
    assert "classes" in [one.name for one in all_panels() if one.fits(errors)]
    found = state(errors, of="sea")
    assert found["apart"]
    assert found["pairs"] == []
    assert found["curves"]["sweep"]["column"] == "chance of sea"
    row = next(one for one in found["classes"] if one["name"] == "sea")
    assert row["missed"] == (target[:, 1] & (chance[:, 1] < 0.5)).sum()
    for cell, count in (((1, 1), row["missed"]), ((1, 2), row["taken"])):
        asked = errors.answer({"kind": "rows", "query": {"cells": [cell]}})
        assert asked["total"] == count
