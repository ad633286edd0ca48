"""Tests of every tool that takes long: its page is reloaded while it runs, and then stopped, or left until it ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.lab.lab_page import LabPage
from tests.lab.server import LabServer

SETUP = """
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


class SlowModel(nn.Module):
    pause = 0.05

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        time.sleep(self.pause)
        return self.last(torch.relu(self.first(x)))


torch.manual_seed(0)
x = torch.randn(320, 4)
data = TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
val_loader = DataLoader(TensorDataset(x + 0.01, data.tensors[1]), batch_size=8)
model, loss_fn = SlowModel(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)


def make_debugger():
    return nbdebug.Debugger(model, loader, val_loader, loss_fn=loss_fn, optimizer=optimizer)


dbg = make_debugger()
"""
TIMEOUT = 30_000


@dataclass(frozen=True)
class LongTool:
    """A call, and what its page shows while it runs and once it was stopped; ``pause`` is the time of a pass in s.

    ``next_stopped`` is what the page of the next tool in the same call shows once that one was stopped, too.
    """

    call: str
    progress: str
    stopped: str
    pause: float = 0.05
    next_stopped: str = ""


NO_RESULT = "stopped before there was a result"
TOOLS = {
    "range test": LongTool("dbg.lr_range(steps=1000)", "sweep 1 of 3", "1 sweep, "),
    "overfit test": LongTool("dbg.overfit()", "Tiny-batch overfit test", "Stopped at loss", 0.1),
    "optimizers": LongTool("dbg.compare_optimizers()", "range test of", "· stopped"),
    "batch size": LongTool("dbg.batch_size(start=1)", "Batch size\ncpu", "· stopped", 0.2),
    "treatments": LongTool("dbg.treatments()", r"without treatment, seed 0 · about \d+ s", "Stopped before all"),
    "ladder": LongTool("dbg.ladder()", r"seed 1 of 3 · about \d+ s", "Stopped before two seeds"),
    "trial": LongTool("dbg.try_fix('learning rate=0.01', checkup=None)", r"seed 1 of 5 · about \d+ s", "two seeds"),
    "bisection": LongTool("dbg.bisect(samples=True, fails=fails)", "run . of at most 40", "Stopped before there"),
    "profile": LongTool("dbg.profile()", "timing", "Stopped before all measurements|" + NO_RESULT, 0.5),
    "repeatability": LongTool("dbg.repeatable(steps=200)", r"run, step \d+ of 200", "Stopped before the runs"),
    "checkup": LongTool("dbg.checkup()", r"\d+ of \d+ · ", r"Stopped after \d+ checks", 0.5),
    "thorough checkup": LongTool(
        "dbg.checkup('thorough')", "Tiny-batch overfit test", "Stopped at loss", 0.1, r"Stopped after \d+ checks"
    ),
    # A triage takes less time the more is known from other tools.
    "triage": LongTool("make_debugger().triage('loss-flat')", "now: ", "stopped early", 2.0),
    "errors": LongTool("dbg.errors()", r"\d+ of 320 samples", r"of \d+ samples correct", 0.5),
    "data": LongTool("slow.data(samples=None)", "Data", "Stopped: the profile is partial"),
    "importance": LongTool("dbg.importance()", "attributions\n.*of 320 samples", "stopped early", 0.5),
    "explanation": LongTool("dbg.explain(range(8), 'shapley')", "rows went through the model", NO_RESULT, 0.5),
    "comparison": LongTool("nbdebug.compare(dbg, dbg)", "running . in", NO_RESULT, 3.0),
    "ranks": LongTool("nbdebug.compare(dbg, parallel)", "running (the ranks of b|a in)", NO_RESULT, 3.0),
    "checkpoint": LongTool("dbg.check_checkpoint(save=save)", "training steps", NO_RESULT, 3.0),
}
SLOW_PARTS = """
class SlowData(torch.utils.data.Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.05)
        return data[index]


def wait_for_reload():
    while not os.path.exists("end"):
        time.sleep(0.05)


def fails(copy):
    time.sleep(2)
    return True


parallel = nbdebug.data_parallel(dbg, processes=2)


def save(path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""
SLOW_DATA = "slow = nbdebug.Debugger(model, DataLoader(SlowData(), batch_size=8), loss_fn=loss_fn)"


@pytest.fixture(scope="module")
def tool_page(jupyter_lab: LabServer) -> Iterator[LabPage]:
    """A notebook whose first cell has built a slow setup, and whose second cell is that of every tool."""
    with jupyter_lab.open(jupyter_lab.write("long_tools.ipynb", f"{SETUP}\n{SLOW_PARTS}\n{SLOW_DATA}", "pass")) as lab:
        lab.run_cells(0)
        yield lab


def start_tools(lab: LabPage, source: str) -> set[str]:
    """Run a source in the second cell, whose output on disk is that of the tools before; return the names of these."""
    lab.page.evaluate("source => panel.content.model.cells.get(1).sharedModel.setSource(source)", source)
    lab.save()
    earlier = run_names(lab)
    lab.run_cell(1)
    return earlier


def run_names(lab: LabPage) -> set[str]:
    """Return the executions of the cell whose tools have an output in it."""
    names = [output.get("metadata", {}).get("nbdebug", {}).get("run", "") for output in lab.outputs(1)]
    return {name.partition("-")[0] for name in names if name}


def end_tools(lab: LabPage) -> None:
    """Leave an idle kernel to the next test; an interrupt that meets an idle kernel may end it."""
    if not lab.kernel_answers(seconds=1):
        lab.interrupt()
        assert lab.kernel_answers(seconds=60)
    # JupyterLab reports messages that reach a reloaded page before it has asked for the open channels.
    lab.errors[:] = [error for error in lab.errors if not error.startswith("Comm not found")]


def shows(lab: LabPage, pattern: str) -> Callable[[], bool]:
    """Return a function that tells whether the second cell shows a text that matches ``pattern``."""
    return lambda: re.search(pattern, lab.output(1).inner_text()) is not None


@pytest.mark.parametrize("name", TOOLS)
def test_tool_is_live_and_stops_after_reload(tool_page: LabPage, name: str) -> None:
    lab, tool = tool_page, TOOLS[name]
    try:
        earlier = start_tools(lab, f"SlowModel.pause = {tool.pause}\nresult = {tool.call}")
        lab.output(1).locator(".nb-stop:visible").wait_for(timeout=TIMEOUT)
        lab.load_notebook()
        lab.output(1).locator(".nb-stop:visible").wait_for(timeout=TIMEOUT)
        lab.wait_until(shows(lab, tool.progress), timeout=TIMEOUT / 1000)
        for stopped in filter(None, (tool.stopped, tool.next_stopped)):
            lab.output(1).locator(".nb-stop:visible").click()
            lab.wait_until(shows(lab, stopped), timeout=30)
        assert lab.kernel_answers(seconds=30)
        lab.wait_until(shows(lab, "Ended 20"), timeout=10)
        lab.wait_until(lambda: lab.output(1).locator(".nb-stop:visible").count() == 0, timeout=10)
        assert len(run_names(lab) - earlier) == len(run_names(lab)) == 1
        assert lab.output(1).locator(".nb-stop").count() == 0
        texts = [output["data"]["text/plain"] for output in lab.outputs(1) if "data" in output]
        assert texts
        assert not any("object at 0x" in text for text in texts)
    finally:
        end_tools(lab)


def test_results_of_tools_that_end_after_reload_are_shown(jupyter_lab: LabServer, tool_page: LabPage) -> None:
    lab = tool_page
    calls = {
        "Tiny-batch overfit test": "dbg.overfit(steps=40); wait_for_reload()",
        "Learning-rate range test": "dbg.lr_range(steps=80, seeds=1)",
        "Model errors": "dbg.errors()",
        "Repeatability": "dbg.repeatable(steps=2)",
        "Checkup": "dbg.checkup('quick')",
    }
    try:
        earlier = start_tools(lab, "\n".join(["SlowModel.pause = 0.03", *calls.values()]))
        lab.output(1).locator(".nb-stop:visible").wait_for(timeout=TIMEOUT)
        lab.load_notebook()
        ends = lab.output(1).get_by_text("Ended 20")
        lab.wait_until(lambda: ends.count() == 1, timeout=60)
        jupyter_lab.end_file.touch()
        lab.wait_until(lambda: ends.count() == len(calls), timeout=60)
        for title in calls:
            lab.output(1).get_by_role("heading", name=title).first.wait_for(timeout=TIMEOUT)
        assert lab.output(1).locator(".nb-stop:visible").count() == 0
        assert len(run_names(lab) - earlier) == len(run_names(lab)) == 1
    finally:
        end_tools(lab)
