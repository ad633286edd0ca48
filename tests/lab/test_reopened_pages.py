"""Tests of pages that are saved, reloaded or reopened while a tool runs in a busy kernel."""

from __future__ import annotations

import re
from typing import Any

import nbformat

from tests.lab.conftest import SLOW_SETUP
from tests.lab.lab_page import LabPage, OpenNotebook
from tests.lab.server import LabServer

WATCH = """
import os
with dbg.watch(every=4) as run:
    while not os.path.exists("end"):
        train(5)
"""
SHORT_WATCH = "with dbg.watch() as first_run:\n    train(12)"
ASYNC_WATCH = """
import asyncio
async def training():
    global run
    with dbg.watch() as run:
        while not os.path.exists("end"):
            train(1)
            await asyncio.sleep(0.05)
import os
task = asyncio.create_task(training())
"""
CLOSE_DIALOGS = "() => { setInterval(() => document.querySelector('.jp-Dialog .jp-mod-reject')?.click(), 200); }"
TIMEOUT = 30_000


def saved_outputs(jupyter_lab: LabServer, lab: LabPage, cell: int) -> list[Any]:
    """Save, and return the outputs of a cell as they are on disk."""
    lab.save()
    path = jupyter_lab.notebooks / lab.page.evaluate("panel.context.path")
    return list(nbformat.read(path, 4).cells[cell].outputs)


def live_step(lab: LabPage, cell: int = 1) -> int:
    """Wait for a live page with a Stop button and a growing step, and return the step."""
    output = lab.output(cell)
    output.locator(".nb-stop").wait_for(timeout=TIMEOUT)
    status = output.locator(".nb-status").first
    steps = []
    for _ in range(2):
        is_later = "([node, least]) => Number(/([\\d,]+) steps/.exec(node.textContent)?.[1]) > least"
        lab.page.wait_for_function(is_later, arg=[status.element_handle(), max(steps, default=0)], timeout=TIMEOUT)
        steps.append(int((re.search(r"(\d+) steps", status.inner_text()) or [0, 0])[1]))
    return steps[-1]


def end_run(jupyter_lab: LabServer, lab: LabPage) -> None:
    """Let the loop end, and wait until the kernel is idle."""
    jupyter_lab.end_file.touch()
    lab.page.wait_for_function("() => panel.sessionContext.session?.kernel?.status === 'idle'", timeout=60_000)


def test_watch_survives_its_page_at_ten_moments(jupyter_lab: LabServer, open_notebook: OpenNotebook) -> None:
    """Each moment follows the last one in the same kernel, whose only cell runs all the time."""
    with open_notebook(SLOW_SETUP, WATCH, "run", "print(run.result.steps)") as lab:
        lab.run_cells(0)
        lab.run_cell(1)
        live_step(lab)

        lab.load_notebook()  # 1: reloaded before anything was saved
        before = live_step(lab)
        assert lab.output(1).get_by_role("heading", name="Training").count() == 1

        (output,) = saved_outputs(jupyter_lab, lab, 1)  # 2: saved
        assert re.fullmatch(r"Training: running, as of step \d+, [\d-]{10} [\d:]{8}", output.data["text/plain"])
        assert "Running, as of step" in output.data["text/html"]
        assert "widget" not in str(output.data.keys())
        lab.output(1).locator(".nb-stop").wait_for()  # the page was not disturbed

        lab.load_notebook()  # 3: reloaded after the save
        assert live_step(lab) > before
        lab.load_notebook()  # 4: and once more
        before = live_step(lab)

        lab.page.goto("about:blank")  # 5: closed, and reopened later
        lab.page.wait_for_timeout(3000)
        lab.load_notebook()
        assert live_step(lab) > before

        other = LabPage(lab.page.context.new_page(), lab.address, [])  # 6: a second tab
        other.load_notebook()
        assert live_step(other) > before
        live_step(lab)
        other.page.close()

        lab.page.context.set_offline(True)  # 7: the network is cut
        lab.page.wait_for_timeout(2000)
        lab.page.context.set_offline(False)
        lab.page.evaluate(CLOSE_DIALOGS)  # JupyterLab may report it
        lab.errors.clear()
        before = live_step(lab)

        lab.output(1).get_by_role("button", name="Pause").click()  # 8: paused, and reloaded while it waits
        lab.output(1).get_by_role("button", name="Resume").wait_for(timeout=TIMEOUT)
        lab.load_notebook()
        lab.output(1).get_by_role("button", name="Resume").click(timeout=TIMEOUT)
        assert live_step(lab) >= before

        lab.page.evaluate("() => panel.content.model.cells.get(1).outputs.clear()")  # 9: saved without its output
        lab.load_notebook()
        assert live_step(lab) > before

        lab.output(1).locator(".nb-stop").click()  # 10: stopped in a page that did not start it
        lab.output(1).get_by_text("interrupted").first.wait_for(timeout=TIMEOUT)
        assert lab.output(1).locator(".nb-stop").count() == 0
        output = saved_outputs(jupyter_lab, lab, 1)[0]
        assert output.data["text/plain"].startswith("nbdebug watch:")
        assert "Running" not in output.data["text/html"]
        lab.wait_for_kernel()
        lab.run_cells(2, 3)
        lab.output(2).get_by_role("heading", name="Training").wait_for(timeout=TIMEOUT)
        assert int(lab.outputs(3)[0]["text"]) >= before
        # JupyterLab reports messages that reach a reloaded page before it has asked for the open channels.
        lab.errors[:] = [error for error in lab.errors if not error.startswith("Comm not found")]


def test_earlier_run_on_disk_gives_way_to_present_run(jupyter_lab: LabServer, open_notebook: OpenNotebook) -> None:
    with open_notebook(SLOW_SETUP, f"{SHORT_WATCH}\n{WATCH}", SHORT_WATCH) as lab:
        jupyter_lab.end_file.touch()
        lab.run_cells(0, 1)
        assert len(saved_outputs(jupyter_lab, lab, 1)) >= 2
        jupyter_lab.end_file.unlink()
        lab.run_cell(1)
        lab.output(1).locator(".nb-stop").wait_for(timeout=TIMEOUT)
        lab.page.wait_for_timeout(2000)
        lab.load_notebook()
        lab.output(1).locator(".nb-stop").wait_for(timeout=TIMEOUT)
        names = [output["metadata"]["nbdebug"]["run"] for output in lab.outputs(1)]
        assert len({name.partition("-")[0] for name in names}) == 1
        end_run(jupyter_lab, lab)


def test_run_that_ended_while_page_was_closed_is_shown(jupyter_lab: LabServer, open_notebook: OpenNotebook) -> None:
    with open_notebook(SLOW_SETUP, WATCH) as lab:
        lab.run_cells(0)
        lab.run_cell(1)
        live_step(lab)
        assert "running" in saved_outputs(jupyter_lab, lab, 1)[0].data["text/plain"]
        lab.page.goto("about:blank")
        jupyter_lab.end_file.touch()
        lab.page.wait_for_timeout(5000)
        lab.load_notebook()
        lab.output(1).get_by_text("Ended 20").first.wait_for(timeout=TIMEOUT)
        assert lab.output(1).locator(".nb-stop:visible").count() == 0
        assert "Running" not in lab.output(1).inner_text()
        assert saved_outputs(jupyter_lab, lab, 1)[0].data["text/plain"].startswith("nbdebug watch:")


def test_restarted_kernel_leaves_picture_without_buttons(open_notebook: OpenNotebook) -> None:
    with open_notebook(SLOW_SETUP, WATCH) as lab:
        lab.run_cells(0)
        lab.run_cell(1)
        live_step(lab)
        lab.restart_kernel()
        lab.output(1).get_by_text("No connection to Python").wait_for(timeout=TIMEOUT)
        assert lab.output(1).locator(".nb-stop:visible").count() == 0
        lab.save()
        lab.load()
        lab.output(1).get_by_text("Running, as of step").wait_for(timeout=TIMEOUT)
        assert lab.output(1).locator(".nb-stop").count() == 0


def test_magic_runs_lists_runs_and_shows_running_one_again(jupyter_lab: LabServer, open_notebook: OpenNotebook) -> None:
    with open_notebook(SLOW_SETUP, ASYNC_WATCH, "%load_ext nbdebug\n%nbdebug runs", "run", "print()") as lab:
        lab.run_cells(0, 1)
        lab.run_cells(2, 3)
        live_step(lab, 2)
        live_step(lab, 3)
        assert re.match(r"1  Training, cell \[2\]: started [\d:]{8}, running, as of step \d", lab.outputs(2)[0]["text"])
        jupyter_lab.end_file.touch()
        for cell in (2, 3):
            lab.output(cell).get_by_text("Ended 20").wait_for(timeout=TIMEOUT)
            assert lab.output(cell).locator(".nb-stop").count() == 0
        lab.run_cells(2)
        assert "ended 20" in lab.outputs(2)[0]["text"]
