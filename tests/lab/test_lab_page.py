"""That the harness itself drives JupyterLab: what the other tests here stand on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.server import Lab


def test_cells_run_and_their_outputs_are_seen(jupyter_lab: Lab, notebook: Callable[..., str]) -> None:
    name = notebook("print('two', 1 + 1)", "from IPython.display import HTML\nHTML('<b id=bold>bold</b>')")
    with jupyter_lab.open(name) as lab:
        lab.run_all()
        lab.wait_idle()
        assert lab.output(0).inner_text().strip() == "two 2"
        assert lab.output(1).locator("#bold").inner_text() == "bold"
        assert [one["output_type"] for one in lab.outputs(1)] == ["execute_result"]


def test_a_running_cell_is_busy_until_it_is_interrupted(jupyter_lab: Lab, notebook: Callable[..., str]) -> None:
    with jupyter_lab.open(notebook("import time\nprint('begun')\ntime.sleep(100)")) as lab:
        lab.run_cell(0)
        lab.output(0).get_by_text("begun").wait_for()
        assert lab.busy
        lab.interrupt()
        lab.wait_idle(20)
        assert "KeyboardInterrupt" in lab.output(0).inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_is_as_asked(jupyter_lab: Lab, notebook: Callable[..., str], theme: str) -> None:
    with jupyter_lab.open(notebook("1"), theme=theme) as lab:
        dark = lab.page.evaluate("document.body.dataset.jpThemeLight") == "false"
        assert dark == (theme == "dark")


def test_without_a_kernel_outputs_stay_and_nothing_runs(jupyter_lab: Lab, notebook: Callable[..., str]) -> None:
    with jupyter_lab.open(notebook("print('kept')")) as lab:
        lab.run_all()
        lab.wait_idle()
        lab.reopen_without_kernel()
        assert lab.output(0).inner_text().strip() == "kept"
        assert jupyter_lab.ask("sessions") == []
