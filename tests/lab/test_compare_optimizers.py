"""Test of the optimizer comparison in JupyterLab."""

from __future__ import annotations

from tests.lab.charts import IS_DRAWN, STATIC_FORMATS
from tests.lab.lab_page import OpenNotebook


def test_compare_optimizers_chart_grows_and_stays_after_stop(start_cell: OpenNotebook) -> None:
    with start_cell("dbg.compare_optimizers(['yours', 'Adam'], rates={'Adam': 0.01}, steps=2000)") as lab:
        output = lab.output(1)
        canvas = output.locator("canvas").first
        before = canvas.evaluate("node => node.toDataURL()")
        # The canvas is another element as soon as the saved picture has gone live.
        lab.wait_until(lambda: canvas.evaluate("node => node.toDataURL()") != before, timeout=20)
        output.locator(".nb-stop").click()
        lab.wait_idle(20)
        output.locator(".nb-stop").wait_for(state="detached", timeout=20_000)
        canvas = output.locator("canvas").first
        lab.page.wait_for_function(IS_DRAWN, arg=canvas.element_handle(), timeout=20_000)
        assert "stopped" in output.locator(".nb-status").inner_text()
        assert lab.display_formats(1) == STATIC_FORMATS
