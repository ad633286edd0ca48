"""Tests of panels in the page of the error browser, and of requests to them."""

from __future__ import annotations

import pytest

from nbdebug.exceptions import SetupError
from nbdebug.tools.errors.panels import calibration, classes
from nbdebug.tools.errors.panels.registry import PANEL_MODULES, all_panels
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import to_script_json
from tests.tools.errors.random_errors import make_errors, random_scores


def random_errors(rows: int = 300, classes: int = 4) -> Errors:
    return make_errors(*random_scores(rows, classes, margin=1.5))


def test_all_panels_follow_order_of_panel_modules() -> None:
    assert [panel.name for panel in all_panels()] == list(PANEL_MODULES)


def test_view_contains_only_panels_that_fit() -> None:
    state = random_errors().view().state()
    panels = {panel["name"]: panel["state"] for panel in state["panels"]}
    assert panels["classes"]
    assert panels["calibration"]
    assert "flips" not in panels
    html = random_errors().view().html()
    assert "balanced accuracy" in html
    assert "Expected calibration error" in html


def test_view_adds_no_table_column() -> None:
    errors = random_errors()
    errors.view()
    assert list(errors.table.columns) == ["loss", "confidence", "margin", "entropy"]


def test_panel_request_passes_options_to_panel() -> None:
    errors = random_errors()
    answer = errors.answer({"kind": "panel", "name": "classes", "options": {"of": 2, "find": "2"}})
    assert answer["state"]["curves"]["name"] == "2"
    assert [row["name"] for row in answer["state"]["classes"]] == ["2"]
    assert errors.answer({"kind": "panel", "name": "calibration", "options": {"of": 1}})["state"]["of"] == 1


@pytest.mark.parametrize(
    "panel_request", [{"name": "flips"}, {"name": "classes", "options": {"of": 9}}], ids=["panel", "class"]
)
def test_panel_request_for_unknown_panel_or_class_raises_setup_error(panel_request: dict[str, object]) -> None:
    with pytest.raises(SetupError, match="expected one of"):
        random_errors().answer({"kind": "panel", **panel_request})


@pytest.mark.parametrize(("rows", "class_count"), [(50_000, 3), (60_000, 2), (5_000, 300)])
def test_panel_state_of_large_table_is_below_50_kilobytes(rows: int, class_count: int) -> None:
    errors = random_errors(rows, class_count)
    for panel in (classes, calibration):
        assert len(to_script_json(panel.state(errors))) < 50_000
        assert len(to_script_json(panel.state(errors, of=1))) < 50_000
