"""Tests of the range test in JupyterLab: growth, stop, handle, button, reloads and saved notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.charts import STATIC_FORMATS, count_points, is_drawn, line_chart
from tests.lab.lab_page import LabPage, OpenNotebook

SETUP = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import nbdebug


class Net(nn.Sequential):
    pause = 0.0

    def forward(self, x):
        time.sleep(self.pause)
        return super().forward(x)


torch.manual_seed(0)
x = torch.randn(256, 8)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=32, shuffle=True)
model = Net(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
"""
RANGE_TEST = "result = dbg.lr_range(steps=60, seeds=2)"
PRINT_RATE = "print(optimizer.param_groups[0]['lr'], dbg.log)"
BUSY = "time.sleep(3)\nprint('slept')"


@pytest.fixture
def open_range_test(open_notebook: OpenNotebook) -> OpenNotebook:
    """Open a notebook whose second cell has run a range test, or has started it if ``wait`` is false."""

    @contextmanager
    def start(source: str = RANGE_TEST, wait: bool = True, **appearance: Any) -> Iterator[LabPage]:
        with open_notebook(SETUP, source, PRINT_RATE, BUSY, **appearance) as lab:
            lab.run_cells(0)
            lab.run_cell(1)
            if wait:
                lab.wait_idle()
                rate_handle(lab).wait_for()
            yield lab

    return start


def rate_handle(lab: LabPage) -> Any:
    """The slider that selects a learning rate on the chart."""
    return lab.output(1).get_by_role("slider", name="learning rate to read")


def use_button(lab: LabPage) -> Any:
    """The button that sets the learning rate of the optimizer."""
    return lab.output(1).locator(".nb-use")


def kernel_rate(lab: LabPage) -> str:
    """The learning rate of the optimizer and the log of the debugger in the kernel."""
    lab.run_cells(2)
    return str(lab.output(2).inner_text())


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


def test_use_button_sets_rate_of_handle_and_dragging_does_not(open_range_test: OpenNotebook) -> None:
    with open_range_test() as lab:
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


def test_keys_move_handle_and_keep_focus_of_notebook(open_range_test: OpenNotebook) -> None:
    with open_range_test() as lab:
        rate_handle(lab).focus()
        focus = lab.focus_state()
        values = []
        for key in ("ArrowRight", "PageUp", "ArrowLeft", "End", "Home"):
            rate_handle(lab).press(key)
            values.append(float(rate_handle(lab).get_attribute("aria-valuenow")))
        right, page_up, left, end, home = values
        assert home < right < left < page_up < end
        assert lab.focus_state() == focus


def test_use_button_during_running_cell_waits_for_its_end(open_range_test: OpenNotebook) -> None:
    with open_range_test() as lab:
        use_button(lab).wait_for()
        lab.run_cell(3)
        use_button(lab).click()
        lab.output(1).get_by_text("Waiting for the cell").wait_for()
        lab.output(1).get_by_text("lr is").wait_for(timeout=10_000)
        assert lab.output(3).inner_text().strip() == "slept"
        assert "0.001 → " in kernel_rate(lab)


def test_use_button_of_reloaded_page_reaches_kernel(open_range_test: OpenNotebook) -> None:
    with open_range_test() as lab:
        lab.save()
        lab.load()
        use_button(lab).click()
        lab.output(1).get_by_text("lr is").wait_for()
        assert "0.001 → " in kernel_rate(lab)


def test_use_button_after_kernel_restart_shows_code_until_rerun(open_range_test: OpenNotebook) -> None:
    with open_range_test() as lab:
        use_button(lab).wait_for()
        lab.restart_kernel()
        lab.output(1).get_by_text("To use it, run").wait_for()
        assert use_button(lab).is_hidden()
        lab.run_cells(0, 1)
        use_button(lab).click()
        lab.output(1).get_by_text("lr is").wait_for()


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
