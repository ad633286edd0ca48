"""A range test in real JupyterLab: it sweeps before one's eyes, is stopped, read, used, saved and opened anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.lab.lab_page import LabPage
from tests.lab.server import Lab
from tests.lab.test_live_view import DRAWN, STATIC, chart, kinds, points

Swept = Callable[..., AbstractContextManager[LabPage]]

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
TEST = "result = dbg.lr_range(steps=60, seeds=2)"
RATE = "print(optimizer.param_groups[0]['lr'], dbg.log)"
BUSY = "time.sleep(3)\nprint('slept')"


@pytest.fixture
def swept(jupyter_lab: Lab, notebook: Callable[..., str]) -> Swept:
    """Opens a notebook in which a range test has been made, or was begun where it is not waited for."""

    @contextmanager
    def opened(source: str = TEST, wait: bool = True, **look: Any) -> Iterator[LabPage]:
        with jupyter_lab.open(notebook(SETUP, source, RATE, BUSY), **look) as lab:
            lab.run_cell(0)
            lab.wait_idle()
            lab.run_cell(1)
            if wait:
                lab.wait_idle()
                handle(lab).wait_for()
            yield lab

    return opened


def handle(lab: LabPage) -> Any:
    """What reads the curves."""
    return lab.output(1).get_by_role("slider", name="learning rate to read")


def use(lab: LabPage) -> Any:
    """The button that sets the rate."""
    return lab.output(1).locator(".nb-use")


def rate(lab: LabPage) -> str:
    """What the optimizer and the log have in the kernel."""
    lab.run_cell(2)
    lab.wait_idle()
    return str(lab.output(2).inner_text())


def drag(lab: LabPage, by: int) -> None:
    """Takes the handle so many pixels along."""
    handle(lab).scroll_into_view_if_needed()
    box = handle(lab).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse = lab.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + by, y, steps=4)
    mouse.up()


def test_the_rate_under_the_handle_is_read_and_set_and_nothing_else_sets_it(swept: Swept) -> None:
    with swept() as lab:
        assert rate(lab).startswith("0.001 []")
        use(lab).wait_for()
        first = float(handle(lab).get_attribute("aria-valuenow"))
        drag(lab, -150)
        value = float(handle(lab).get_attribute("aria-valuenow"))
        assert value < first / 2
        assert "slope" in lab.output(1).locator(".nb-reading").inner_text()
        assert rate(lab).startswith("0.001 []")
        use(lab).click()
        lab.output(1).get_by_text("lr is").wait_for()
        said = rate(lab)
        assert float(said.split()[0]) == value
        assert "0.001 → " in said


def test_keys_move_the_handle_and_leave_the_notebook_where_it_is(swept: Swept) -> None:
    with swept() as lab:
        handle(lab).focus()
        place = lab.page.evaluate("[panel.content.activeCellIndex, panel.content.mode]")
        values = []
        for key in ("ArrowRight", "PageUp", "ArrowLeft", "End", "Home"):
            handle(lab).press(key)
            values.append(float(handle(lab).get_attribute("aria-valuenow")))
        right, far, left, end, home = values
        assert home < right < left < far < end
        assert lab.page.evaluate("[panel.content.activeCellIndex, panel.content.mode]") == place


def test_a_click_during_another_cell_waits_for_its_end(swept: Swept) -> None:
    with swept() as lab:
        use(lab).wait_for()
        lab.run_cell(3)
        use(lab).click()
        lab.output(1).get_by_text("Waiting for the cell").wait_for()
        lab.output(1).get_by_text("lr is").wait_for(timeout=10_000)
        assert lab.output(3).inner_text().strip() == "slept"
        assert "0.001 → " in rate(lab)


def test_a_page_that_is_loaded_anew_still_reaches_its_kernel(swept: Swept) -> None:
    with swept() as lab:
        lab.save()
        lab.load()
        use(lab).click()
        lab.output(1).get_by_text("lr is").wait_for()
        assert "0.001 → " in rate(lab)


def test_where_the_kernel_began_anew_the_page_says_what_to_write(swept: Swept) -> None:
    with swept() as lab:
        use(lab).wait_for()
        lab.page.evaluate("() => panel.sessionContext.session.kernel.restart()")
        lab.page.wait_for_function("() => panel.sessionContext.session?.kernel?.status === 'idle'")
        use(lab).click()
        lab.output(1).get_by_text("To use it, run").wait_for()
        assert use(lab).is_hidden()
        lab.run_cell(0)
        lab.run_cell(1)
        lab.wait_idle()
        use(lab).click()
        lab.output(1).get_by_text("lr is").wait_for()


@pytest.mark.parametrize(("theme", "width"), [("light", 700), ("dark", 1500)])
def test_saved_and_opened_without_a_kernel_it_is_drawn_and_says_what_to_write(
    swept: Swept, theme: str, width: int
) -> None:
    with swept(theme=theme, size=(width, 1200)) as lab:
        assert kinds(lab, 1) == STATIC
        lab.reopen_without_kernel()
        handle(lab).wait_for()
        assert chart(lab, 1).evaluate(DRAWN)
        assert use(lab).is_hidden()
        handle(lab).press("ArrowRight")
        value = handle(lab).get_attribute("aria-valuenow")
        line = lab.output(1).locator("code").first.inner_text()
        assert line == f'for group in optimizer.param_groups: group["lr"] = {value}'
        assert "Error displaying widget" not in lab.page.content()


def test_it_grows_while_it_sweeps_and_stop_keeps_what_there_is(swept: Swept) -> None:
    with swept("Net.pause = 0.03\nresult = dbg.lr_range(steps=100, seeds=3)", wait=False) as lab:
        early = points(lab, 1, at_least=5)
        points(lab, 1, at_least=early + 10)
        assert lab.output(1).get_by_text("sweep 1 of 3").is_visible()
        assert handle(lab).is_hidden()
        lab.output(1).locator(".nb-stop").click()
        lab.wait_idle(20)
        handle(lab).wait_for()
        assert points(lab, 1) >= early + 10
        assert lab.output(1).locator(".nb-stop").count() == 0
        assert kinds(lab, 1) == STATIC
        assert "1 sweep, " in lab.output(1).locator(".nb-status").first.inner_text()
        assert rate(lab).startswith("0.001 []")
