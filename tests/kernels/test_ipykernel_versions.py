"""Tests of buttons and interrupts while a cell trains, with several versions of ipykernel.

===========  ============================  =========================  ===============================
ipykernel    click on the subshell         click on the shell         interrupt
             (JupyterLab 4.4 and later)    (VS Code, older front
                                           ends)
===========  ============================  =========================  ===============================
6.31         no subshells                  after the cell             ends the cell, keeps the result
7.3          at once, on another thread    after the cell             ends the cell, keeps the result
7.4          at once, on another thread    after the cell             ends the cell, keeps the result
===========  ============================  =========================  ===============================
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernels.kernel import Kernel, Message, start_kernel

SETUP = """
import threading, time
import ipykernel, torch, nbdebug
from nbdebug.rules.examples import classifier
from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import show_view

setup = classifier()
model, optimizer, batches = setup.model, setup.optimizers[0], list(setup.train_loader)

def step(number):
    x, y = batches[number % len(batches)]
    optimizer.zero_grad()
    loss = setup.loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    time.sleep(0.002)
    return loss.item()

print(ipykernel.__version__)
"""
STOPPABLE_CELL = """
threads = []
screen = show_view(LineChart(stoppable=True)).__enter__()
react = screen.page.on_message
def record_thread(content):
    threads.append(threading.current_thread() is threading.main_thread())
    react(content)
screen.page.on_message = record_thread
start = time.monotonic()
while time.monotonic() < start + 1.5 and not screen.stopped:
    screen.append({"step": len(threads), "loss": step(0)})
print(screen.stopped, *threads)
"""
PRINT_CLICKS = """
print(screen.stopped, *threads)
screen.__exit__(None, None, None)
print(repr(screen.trouble))
"""
# The step is last: in Python 3.11 the jump back from an `if` has no line, and IPython cannot show an interrupt there.
WATCHED_CELL = """
with nbdebug.watch(model, optimizer) as run:
    for number in range(100_000):
        if number == 20:
            print("training")
        step(number)
print("never")
"""
REGISTER_RESULT = """
from nbdebug.result import Result
from nbdebug.views import kernel_bridge

class Recorder(Result):
    on_main_thread = []
    def view(self):
        return LineChart()
    def answer(self, request):
        self.on_main_thread.append(threading.current_thread() is threading.main_thread())
        return {}

result = Recorder()
name = kernel_bridge.register_result(result)
print(name, kernel_bridge._bridge.model_id)
"""
PRINT_RESULT = "print(run.result.steps > 20, run.result.interrupted, len(optimizer._optimizer_step_post_hooks))"
CONTROLLED_CELL = """
before = optimizer.param_groups[0]["lr"]
with nbdebug.watch(model, optimizer) as run:
    for number in range(600):
        step(number)
last_event = [event.text for event in run.record.events][-1:]
print(run.result.interrupted, optimizer.param_groups[0]["lr"] / before, last_event)
"""


@pytest.fixture(scope="module", params=["6.31.0", "7.3.0", "7.4.0"])
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    work = tmp_path_factory.mktemp("kernel")
    cache: Path = request.config.cache.mkdir("kernels") if hasattr(request.config, "cache") else work
    try:
        with start_kernel(request.param, cache, work) as running:
            assert running.run(SETUP) == (request.param, "")
            yield running
    except subprocess.CalledProcessError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"ipykernel {request.param} cannot be installed: {error.stderr.strip().splitlines()[-1]}")
    assert "Traceback" not in running.log.read_text()


def click_once(kernel: Kernel, subshell: str | None, *clicks: Message) -> Callable[[Message], None]:
    """Press buttons, by default Stop, at the first message of a view."""
    clicked_comms: list[str] = []

    def on_message(message: Message) -> None:
        content = message["content"]
        is_message = message["msg_type"] == "comm_msg" and content["data"].get("method") == "custom"
        is_view_message = is_message and "to" in content["data"]["content"]
        if is_view_message and not clicked_comms:
            clicked_comms.append(content["comm_id"])
            run = content["data"]["content"]["to"]
            for click in clicks or ({"kind": "stop"},):
                kernel.click(content["comm_id"], {**click, "run": run}, subshell)

    return on_message


def test_click_on_subshell_is_handled_at_once_on_other_thread(kernel: Kernel) -> None:
    if kernel.subshell is None:
        assert kernel.run("print(ipykernel.__version__)")[0].startswith("6.")
        return
    assert kernel.run(STOPPABLE_CELL, click_once(kernel, kernel.subshell)) == ("True False", "")
    assert kernel.run(PRINT_CLICKS) == ("True False\n''", "")


def test_click_on_shell_is_handled_after_cell(kernel: Kernel) -> None:
    assert kernel.run(STOPPABLE_CELL, click_once(kernel, None)) == ("False", "")
    assert kernel.run(PRINT_CLICKS) == ("True True\n''", "")


def test_watch_obeys_controls_if_kernel_has_subshells(kernel: Kernel) -> None:
    clicks = {"kind": "pause"}, {"kind": "rate", "factor": 0.5}, {"kind": "resume"}, {"kind": "stop"}
    output = kernel.run(CONTROLLED_CELL, click_once(kernel, kernel.subshell, *clicks))
    if kernel.subshell is None:
        assert output == ("False 1.0 []", "")
    else:
        assert output == ("True 0.5 ['stopped by the Stop button']", "")


def test_click_on_closed_view_has_no_effect(kernel: Kernel) -> None:
    closed: list[tuple[str, str]] = []

    def on_message(message: Message) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_msg" and content["data"].get("content", {}).get("kind") == "ended":
            closed.append((content["comm_id"], content["data"]["content"]["to"]))

    assert kernel.run("with show_view(LineChart(stoppable=True)) as screen:\n    pass", on_message) == ("", "")
    for subshell in {kernel.subshell, None}:
        kernel.click(closed[-1][0], {"kind": "stop", "run": closed[-1][1]}, subshell)
    assert kernel.run("print(screen.stopped)") == ("False", "")


def test_page_request_is_answered_between_cells_on_main_thread(kernel: Kernel) -> None:
    name, bridge = kernel.run(REGISTER_RESULT)[0].split()
    answers: list[str] = []

    def on_message(message: Message) -> None:
        if message["content"].get("text", "").startswith("busy"):
            for subshell in {kernel.subshell, None}:
                kernel.click(bridge, {"to": name, "ask": 1, "kind": "use"}, subshell)
        if message["content"].get("comm_id") == bridge:
            answers.append(message["content"]["data"]["content"]["kind"])

    clicks = len({kernel.subshell, None})
    assert kernel.run("print('busy')\ntime.sleep(1)\nprint(Recorder.on_main_thread)", on_message) == ("busy\n[]", "")
    kernel.run("time.sleep(0.1)", on_message)
    assert kernel.run("print(Recorder.on_main_thread)", on_message) == (str([True] * clicks), "")
    assert answers == ["use"] * clicks


def test_interrupt_ends_watched_cell_and_keeps_result(kernel: Kernel) -> None:
    def on_message(message: Message) -> None:
        if "training" in message["content"].get("text", ""):
            kernel.manager.interrupt_kernel()

    assert kernel.run(WATCHED_CELL, on_message) == ("training", "KeyboardInterrupt")
    assert kernel.run(PRINT_RESULT) == ("True True 0", "")
