"""Tests of live views in JupyterLab while cells run."""

from __future__ import annotations

from tests.lab.charts import STATIC_FORMATS, count_points, is_drawn, line_chart
from tests.lab.lab_page import OpenNotebook

ENDLESS_WATCH = """
with dbg.watch() as watch:
    train(100_000)
"""
ENDLESS_ASYNC_CHART = """
import asyncio

from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import show_view

with show_view(LineChart(title="Loss")) as screen:
    for step in range(100_000):
        screen.append({"step": step, "loss": 1 / (1 + step)})
        await asyncio.sleep(0.02)
"""


def test_watch_chart_grows_while_cell_runs_and_stays_after_interrupt(start_cell: OpenNotebook) -> None:
    with start_cell(ENDLESS_WATCH) as lab:
        early = count_points(lab, 1, at_least=5)
        image = line_chart(lab, 1).evaluate("node => node.toDataURL()")
        late = count_points(lab, 1, at_least=early + 20)
        assert line_chart(lab, 1).evaluate("node => node.toDataURL()") != image
        assert lab.is_busy
        lab.interrupt()
        lab.wait_idle()
        assert count_points(lab, 1) >= late
        assert is_drawn(line_chart(lab, 1))
        lab.output(1).locator(".nb-status").get_by_text("interrupted").first.wait_for()
        assert lab.display_formats(1)[:1] == STATIC_FORMATS
        assert "KeyboardInterrupt" in lab.output(1).inner_text()


def test_stop_button_ends_overfit_and_keeps_its_chart(start_cell: OpenNotebook) -> None:
    with start_cell("dbg.overfit()") as lab:
        early = count_points(lab, 1, at_least=5)
        lab.output(1).locator(".nb-stop").click()
        lab.wait_idle(20)
        assert count_points(lab, 1) >= early
        assert is_drawn(line_chart(lab, 1))
        assert lab.output(1).locator(".nb-stop").count() == 0
        assert lab.display_formats(1) == STATIC_FORMATS
        assert "stopped" in lab.output(1).inner_text().lower()


def test_stop_button_ends_checkup_and_keeps_its_result(start_cell: OpenNotebook) -> None:
    with start_cell("type(model).forward = lambda self, x: (time.sleep(3), self.layer(x))[1]\ndbg.checkup()") as lab:
        lab.output(1).locator(".nb-stop").click()
        lab.wait_idle(60)
        lab.output(1).get_by_text("Stopped after").wait_for()
        assert lab.display_formats(1) == STATIC_FORMATS


def test_watch_result_in_last_line_is_displayed_once(start_cell: OpenNotebook) -> None:
    with start_cell("with dbg.watch() as watch:\n    train(20)\nwatch.result") as lab:
        lab.wait_idle()
        assert count_points(lab, 1) == 20
        assert lab.output(1).get_by_role("heading", name="Training").count() == 1
        assert lab.display_formats(1)[:1] == STATIC_FORMATS
        assert count_points(lab, 1) == 20


def test_saved_watch_chart_without_kernel_is_drawn_and_has_tooltip(start_cell: OpenNotebook) -> None:
    with start_cell("with dbg.watch():\n    train(20)") as lab:
        lab.wait_idle()
        lab.reopen_without_kernel()
        assert count_points(lab, 1) == 20
        assert is_drawn(line_chart(lab, 1))
        line_chart(lab, 1).hover()
        assert "loss" in lab.output(1).locator(".nb-tip").inner_text()
        assert "Error displaying widget" not in lab.page.content()


def test_page_reloaded_during_run_has_all_points(start_cell: OpenNotebook) -> None:
    with start_cell(ENDLESS_ASYNC_CHART) as lab:
        before = count_points(lab, 1, at_least=30)
        lab.save()
        lab.load_notebook()
        assert count_points(lab, 1, at_least=before + 20) > before
