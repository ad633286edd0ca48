"""Tests of the handle and the button of a range test in JupyterLab: clicks, keys, reloads and kernel restarts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.lab_page import LabPage
from tests.lab.range_test import PRINT_RATE, RANGE_TEST, SETUP, kernel_rate, rate_handle, use_button
from tests.lab.server import LabServer

BUSY = "time.sleep(3)\nprint('slept')"


@pytest.fixture(scope="module")
def opened(jupyter_lab: LabServer) -> Iterator[LabPage]:
    """A notebook for all tests of this file."""
    with jupyter_lab.open(jupyter_lab.write("lr_range_handle.ipynb", SETUP, RANGE_TEST, PRINT_RATE, BUSY)) as lab:
        yield lab


@pytest.fixture
def range_test(opened: LabPage) -> LabPage:
    """The notebook, which has built its model and run its range test again."""
    opened.run_cells(0, 1)
    rate_handle(opened).wait_for()
    return opened


def drag_handle(lab: LabPage, pixels: int) -> None:
    """Drag the handle to the right."""
    rate_handle(lab).scroll_into_view_if_needed()
    box = rate_handle(lab).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse = lab.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + pixels, y, steps=4)
    mouse.up()


def test_use_button_sets_rate_of_handle_and_dragging_does_not(range_test: LabPage) -> None:
    lab = range_test
    assert kernel_rate(lab).startswith("0.001 []")
    use_button(lab).wait_for()
    first = float(rate_handle(lab).get_attribute("aria-valuenow"))
    drag_handle(lab, -150)
    value = float(rate_handle(lab).get_attribute("aria-valuenow"))
    assert value < first / 2
    assert "slope" in lab.output(1).locator(".nb-reading").inner_text()
    assert kernel_rate(lab).startswith("0.001 []")
    use_button(lab).click()
    lab.output(1).get_by_text("lr is").wait_for()
    state = kernel_rate(lab)
    assert float(state.split()[0]) == value
    assert "0.001 → " in state


def test_keys_move_handle_and_keep_focus_of_notebook(range_test: LabPage) -> None:
    lab = range_test
    rate_handle(lab).focus()
    focus = lab.focus_state()
    values = []
    for key in ("ArrowRight", "PageUp", "ArrowLeft", "End", "Home"):
        rate_handle(lab).press(key)
        values.append(float(rate_handle(lab).get_attribute("aria-valuenow")))
    right, page_up, left, end, home = values
    assert home < right < left < page_up < end
    assert lab.focus_state() == focus


def test_use_button_during_running_cell_waits_for_its_end(range_test: LabPage) -> None:
    lab = range_test
    use_button(lab).wait_for()
    lab.run_cell(3)
    use_button(lab).click()
    lab.output(1).get_by_text("Waiting for the cell").wait_for()
    lab.output(1).get_by_text("lr is").wait_for(timeout=10_000)
    assert lab.output(3).inner_text().strip() == "slept"
    assert "0.001 → " in kernel_rate(lab)


def test_use_button_of_reloaded_page_reaches_kernel(range_test: LabPage) -> None:
    lab = range_test
    lab.save()
    lab.load()
    use_button(lab).click()
    lab.output(1).get_by_text("lr is").wait_for()
    assert "0.001 → " in kernel_rate(lab)


def test_use_button_after_kernel_restart_shows_code_until_rerun(range_test: LabPage) -> None:
    lab = range_test
    use_button(lab).wait_for()
    lab.restart_kernel()
    lab.output(1).get_by_text("To use it, run").wait_for()
    assert use_button(lab).is_hidden()
    lab.run_cells(0, 1)
    use_button(lab).click()
    lab.output(1).get_by_text("lr is").wait_for()
