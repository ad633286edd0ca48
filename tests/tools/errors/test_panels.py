"""Panels inside the whole browser: what the page holds, and what it is told when it asks."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.panels import calibration
from nbdebug.tools.errors.panels.registry import PANEL_MODULES, all_panels
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import to_script_json


def errors(rows: int = 300, classes: int = 4) -> Errors:
    random = np.random.default_rng(0)
    target = random.integers(0, classes, rows)
    scores = random.normal(size=(rows, classes)).astype(np.float32)
    scores[np.arange(rows), target] += 1.5
    return Errors(ClassificationTable.from_arrays(scores, target), "made here")


def test_panels_come_in_their_order() -> None:
    assert [one.name for one in all_panels()] == list(PANEL_MODULES)


def test_a_page_holds_the_panels_that_fit() -> None:
    state = errors().view().state()
    found = {one["name"]: one["state"] for one in state["panels"]}
    assert found["classes"]
    assert found["calibration"]
    assert "flips" not in found
    html = errors().view().html()
    assert "balanced accuracy" in html
    assert "Expected calibration error" in html


def test_opening_the_browser_adds_no_column() -> None:
    found = errors()
    found.view()
    assert list(found.table.columns) == ["loss", "confidence", "margin", "entropy"]


def test_a_panel_is_asked_with_options() -> None:
    found = errors()
    answer = found.answer({"kind": "panel", "name": "classes", "options": {"of": 2, "find": "2"}})
    assert answer["state"]["curves"]["name"] == "2"
    assert [row["name"] for row in answer["state"]["classes"]] == ["2"]
    assert found.answer({"kind": "panel", "name": "calibration", "options": {"of": 1}})["state"]["of"] == 1


@pytest.mark.parametrize("asked", [{"name": "flips"}, {"name": "classes", "options": {"of": 9}}])
def test_what_there_is_not_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(SetupError, match="expected one of"):
        errors().answer({"kind": "panel", **asked})


@pytest.mark.parametrize(("rows", "classes"), [(50_000, 3), (60_000, 2), (5_000, 300)])
def test_a_state_stays_small_however_large_the_data(rows: int, classes: int) -> None:
    found = errors(rows, classes)
    for one in (classes, calibration):
        assert len(to_script_json(one.state(found))) < 50_000
        assert len(to_script_json(one.state(found, of=1))) < 50_000
