"""Tests of LabPage, which drives JupyterLab in the other tests."""

from __future__ import annotations

import pytest

from tests.lab.lab_page import OpenNotebook
from tests.lab.server import LabServer


def test_run_all_shows_outputs_of_cells(open_notebook: OpenNotebook) -> None:
    with open_notebook("print('two', 1 + 1)", "from IPython.display import HTML\nHTML('<b id=bold>bold</b>')") as lab:
        lab.run_all()
        lab.wait_idle()
        assert lab.output(0).inner_text().strip() == "two 2"
        assert lab.output(1).locator("#bold").inner_text() == "bold"
        assert [output["output_type"] for output in lab.outputs(1)] == ["execute_result"]


def test_is_busy_while_cell_runs_until_interrupt(open_notebook: OpenNotebook) -> None:
    with open_notebook("import time\nprint('begun')\ntime.sleep(100)") as lab:
        lab.run_cell(0)
        lab.output(0).get_by_text("begun").wait_for()
        assert lab.is_busy
        lab.interrupt()
        lab.wait_idle(20)
        assert "KeyboardInterrupt" in lab.output(0).inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_open_sets_theme(open_notebook: OpenNotebook, theme: str) -> None:
    with open_notebook("1", theme=theme) as lab:
        dark = lab.page.evaluate("document.body.dataset.jpThemeLight") == "false"
        assert dark == (theme == "dark")


def test_reopen_without_kernel_keeps_outputs_and_ends_session(
    jupyter_lab: LabServer, open_notebook: OpenNotebook
) -> None:
    with open_notebook("print('kept')") as lab:
        lab.run_all()
        lab.wait_idle()
        lab.reopen_without_kernel()
        assert lab.output(0).inner_text().strip() == "kept"
        assert jupyter_lab.request("sessions") == []
