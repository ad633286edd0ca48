"""Panels inside the whole browser: what the page holds, and what it is told when it asks."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.predictions import Predictions
from nbdebug.tools.errors.panels import NAMES, panels
from nbdebug.tools.errors.result import Errors
from nbdebug.views.base import script


def errors(rows: int = 300, classes: int = 4) -> Errors:
    random = np.random.default_rng(0)
    target = random.integers(0, classes, rows)
    scores = random.normal(size=(rows, classes)).astype(np.float32)
    scores[np.arange(rows), target] += 1.5
    return Errors(Predictions.of(scores, target), "made here")


def test_panels_come_in_their_order() -> None:
    assert [one.name for one in panels()] == list(NAMES)


def test_a_page_holds_the_panels_that_fit() -> None:
    state = errors().view().state()
    assert [one["name"] for one in state["panels"]] == ["classes", "calibration"]
    assert all(one["state"] for one in state["panels"])
    html = errors().view().html()
    assert "balanced accuracy" in html
    assert "Calibration error" in html


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
    for one in panels():
        if one.fits(found):
            assert len(script(one.state(found))) < 50_000
            assert len(script(one.state(found, of=1))) < 50_000
