"""Tests in Jupyter Notebook 7, whose pages hold one notebook each."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.lab.server import LabServer
from tests.lab.test_watch import ENDLESS_RUN, SETUP, wait_for_steps

pytestmark = pytest.mark.skipif(find_spec("notebook") is None, reason="needs the package notebook, version 7")


def test_checkup_and_live_watch_work_in_notebook_7(jupyter_lab: LabServer) -> None:
    name = jupyter_lab.write("in_notebook_7.ipynb", SETUP, ENDLESS_RUN, "dbg.checkup()", "run.result.steps > 10")
    with jupyter_lab.open_in_notebook_7(name) as notebook:
        notebook.run_cells(0)
        notebook.run_cell(1)
        wait_for_steps(notebook, 10)
        notebook.output(1).locator(".nb-stop").click()
        notebook.wait_idle(30)
        notebook.output(1).get_by_text("interrupted").first.wait_for()
        notebook.run_cells(2, 3)
        notebook.output(2).get_by_text("Nothing found by").first.wait_for()  # drawn after the kernel is idle
        assert notebook.output(3).inner_text().endswith("True")
