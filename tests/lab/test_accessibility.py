"""Test that views with a kernel behind them have no barrier that axe-core can find: guide, clinic and live panels."""

from __future__ import annotations

from nbdebug.clinic.cases import load_case
from tests.axe import find_barriers
from tests.clinic_notebooks import notebook_cells
from tests.lab.lab_page import LabPage, OpenNotebook

PANELS = ["Classes", "Calibration", "Slices"]


def test_live_views_have_no_barrier(open_notebook: OpenNotebook) -> None:
    clinic = "\n".join(notebook_cells(load_case("loss_iris")))
    exercise = "with nbdebug.clinic.exercise():\n    assert False, 'the loss is 2'"
    sources = [clinic, exercise, "dbg.guide()", "errors = dbg.errors()\nerrors"]
    with open_notebook(*sources, size=(1200, 1600)) as lab:
        lab.run_cells(*range(len(sources)))
        assert "Not yet: nbdebug still finds" in lab.output(0).inner_text()
        assert lab.output(1).inner_text().strip() == "Not yet: the loss is 2"
        lab.output(2).get_by_role("button", name="Run dbg.summary()").click()
        lab.output(2).get_by_role("button", name="Repeat").wait_for()
        barriers = find_barriers(lab.page)
        for panel in PANELS:
            barriers += [f"{panel}: {barrier}" for barrier in open_panel(lab, panel)]
        assert barriers == []


def open_panel(lab: LabPage, name: str) -> list[str]:
    """Open a panel of the error browser, and return the barriers that axe-core finds."""
    lab.output(3).get_by_role("button", name=name, exact=True).click()
    lab.wait_idle()
    return find_barriers(lab.page)
