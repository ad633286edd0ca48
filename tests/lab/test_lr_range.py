"""Tests of the range test in JupyterLab: growth, stop and saved notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.charts import STATIC_FORMATS, count_points, is_drawn, line_chart
from tests.lab.lab_page import LabPage, OpenNotebook
from tests.lab.range_test import PRINT_RATE, RANGE_TEST, SETUP, kernel_rate, rate_handle, use_button


@pytest.fixture
def open_range_test(open_notebook: OpenNotebook) -> OpenNotebook:
    """Open a notebook whose second cell has run a range test, or has started it if ``wait`` is false."""

    @contextmanager
    def start(source: str = RANGE_TEST, wait: bool = True, **appearance: Any) -> Iterator[LabPage]:
        with open_notebook(SETUP, source, PRINT_RATE, **appearance) as lab:
            lab.run_cells(0)
            lab.run_cell(1)
            if wait:
                lab.wait_idle()
                rate_handle(lab).wait_for()
            yield lab

    return start


@pytest.mark.parametrize(("theme", "width"), [("light", 700), ("dark", 1500)])
def test_saved_range_test_without_kernel_is_drawn_and_shows_code(
    open_range_test: OpenNotebook, theme: str, width: int
) -> None:
    with open_range_test(theme=theme, size=(width, 1200)) as lab:
        assert lab.display_formats(1) == STATIC_FORMATS
        lab.reopen_without_kernel()
        rate_handle(lab).wait_for()
        assert is_drawn(line_chart(lab, 1))
        assert use_button(lab).is_hidden()
        rate_handle(lab).press("ArrowRight")
        value = rate_handle(lab).get_attribute("aria-valuenow")
        line = lab.output(1).locator("code").first.inner_text()
        assert line == f'for group in optimizer.param_groups: group["lr"] = {value}'
        assert "Error displaying widget" not in lab.page.content()


def test_range_test_chart_grows_and_stays_after_stop(open_range_test: OpenNotebook) -> None:
    with open_range_test("Net.pause = 0.03\nresult = dbg.lr_range(steps=100, seeds=3)", wait=False) as lab:
        early = count_points(lab, 1, at_least=5)
        count_points(lab, 1, at_least=early + 10)
        assert lab.output(1).get_by_text("sweep 1 of 3").is_visible()
        assert rate_handle(lab).is_hidden()
        lab.output(1).locator(".nb-stop").click()
        lab.wait_idle(20)
        rate_handle(lab).wait_for()
        assert count_points(lab, 1) >= early + 10
        assert lab.output(1).locator(".nb-stop").count() == 0
        assert lab.display_formats(1) == STATIC_FORMATS
        assert "1 sweep, " in lab.output(1).locator(".nb-status").first.inner_text()
        assert kernel_rate(lab).startswith("0.001 []")
