"""Live screens in real JupyterLab, while synchronous cells run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.lab.lab_page import LabPage
from tests.lab.server import Lab

Begun = Callable[[str], AbstractContextManager[LabPage]]

SETUP = """
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        time.sleep(0.02)
        return self.layer(x)


def train(steps):
    for step in range(steps):
        x, y = next(iter(loader))
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.arange(64) % 3), batch_size=8, shuffle=True)
model, loss_fn = Slow(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
"""
FOREVER = """
with dbg.watch() as watch:
    train(100_000)
"""
AWAITING = """
import asyncio

from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import show_view

with show_view(LineChart(title="Awaiting")) as screen:
    for step in range(100_000):
        screen.append({"step": step, "loss": 1 / (1 + step)})
        await asyncio.sleep(0.02)
"""
DRAWN = """node => {
  const p = node.getContext("2d").getImageData(0, 0, node.width, node.height).data, seen = new Set();
  for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 200) seen.add(`${p[i]},${p[i + 1]},${p[i + 2]}`);
  return seen.size > 5;
}"""


def chart(lab: LabPage, cell: int) -> Any:
    """The line chart under a cell."""
    return lab.output(cell).locator(".nb-plot canvas")


def points(lab: LabPage, cell: int, at_least: int = 0) -> int:
    """How many points the chart says it has, when it has enough of them."""
    said = chart(lab, cell)
    lab.page.wait_for_function(
        "([node, least]) => Number(/(\\d+) points/.exec(node.ariaLabel)?.[1]) >= least",
        arg=[said.element_handle(), at_least],
        timeout=20_000,
    )
    found = re.search(r"(\d+) points", said.get_attribute("aria-label") or "")
    return int(found[1]) if found else 0


def kinds(lab: LabPage, cell: int) -> list[set[str]]:
    """What is saved under a cell: the formats of each output that is a display."""
    return [set(one["data"]) for one in lab.outputs(cell) if "data" in one]


STATIC = [{"text/plain", "text/html"}]


@pytest.fixture
def begun(jupyter_lab: Lab, notebook: Callable[..., str]) -> Begun:
    """Opens a notebook whose first cell has made a slow set-up, and whose second runs ``source``."""

    @contextmanager
    def opened(source: str) -> Iterator[LabPage]:
        with jupyter_lab.open(notebook(SETUP, source)) as lab:
            lab.run_cell(0)
            lab.wait_idle()
            assert lab.outputs(0) == []
            lab.run_cell(1)
            yield lab

    return opened


def test_the_curve_moves_while_the_cell_runs_and_an_interrupt_leaves_what_was_drawn(begun: Begun) -> None:
    with begun(FOREVER) as lab:
        early = points(lab, 1, at_least=5)
        picture = chart(lab, 1).evaluate("node => node.toDataURL()")
        late = points(lab, 1, at_least=early + 20)
        assert chart(lab, 1).evaluate("node => node.toDataURL()") != picture
        assert lab.busy
        lab.interrupt()
        lab.wait_idle()
        assert points(lab, 1) >= late
        assert chart(lab, 1).evaluate(DRAWN)
        assert "interrupted" in lab.output(1).locator(".nb-status").first.inner_text()
        assert kinds(lab, 1)[:1] == STATIC
        assert "KeyboardInterrupt" in lab.output(1).inner_text()


def test_stop_ends_the_overfit_test_and_keeps_the_part_that_ran(begun: Begun) -> None:
    with begun("dbg.overfit()") as lab:
        early = points(lab, 1, at_least=5)
        lab.output(1).locator(".nb-stop").click()
        lab.wait_idle(20)
        assert points(lab, 1) >= early
        assert chart(lab, 1).evaluate(DRAWN)
        assert lab.output(1).locator(".nb-stop").count() == 0
        assert kinds(lab, 1) == STATIC
        assert "stopped" in lab.output(1).inner_text().lower()


def test_stop_ends_the_checkup_and_keeps_what_was_found(begun: Begun) -> None:
    with begun("type(model).forward = lambda self, x: (time.sleep(3), self.layer(x))[1]\ndbg.checkup()") as lab:
        lab.output(1).locator(".nb-stop").click()
        lab.wait_idle(60)
        lab.output(1).get_by_text("Stopped after").wait_for()
        assert kinds(lab, 1) == STATIC


def test_a_result_in_the_last_line_is_drawn_once(begun: Begun) -> None:
    with begun("with dbg.watch() as watch:\n    train(20)\nwatch.result") as lab:
        lab.wait_idle()
        assert points(lab, 1) == 20
        assert lab.output(1).get_by_role("heading", name="Training").count() == 1
        assert kinds(lab, 1)[:1] == STATIC
        assert points(lab, 1) == 20


def test_without_a_kernel_the_chart_still_draws_and_answers(begun: Begun) -> None:
    with begun("with dbg.watch():\n    train(20)") as lab:
        lab.wait_idle()
        lab.reopen_without_kernel()
        assert points(lab, 1) == 20
        assert chart(lab, 1).evaluate(DRAWN)
        chart(lab, 1).hover()
        assert "loss" in lab.output(1).locator(".nb-tip").inner_text()
        assert "Error displaying widget" not in lab.page.content()


def test_a_page_that_is_loaded_anew_in_mid_run_has_all_points(begun: Begun) -> None:
    with begun(AWAITING) as lab:
        before = points(lab, 1, at_least=30)
        lab.save()
        lab.load_alone()
        assert points(lab, 1, at_least=before + 20) > before
