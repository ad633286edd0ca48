"""Buttons and interrupts while a synchronous cell trains, in the kernels that are about.

===========  ============================  =========================  ==============================
ipykernel    click by subshell             click by the shell         interrupt
             (JupyterLab from 4.4 on)      (VS Code, older front
                                           ends)
===========  ============================  =========================  ==============================
6.31         there are no subshells        after the cell             ends the cell, result is kept
7.3          at once, on another thread    after the cell             ends the cell, result is kept
7.4          at once, on another thread    after the cell             ends the cell, result is kept
===========  ============================  =========================  ==============================
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernels.kernel import Kernel, Message, started

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
STOPPABLE = """
threads = []
screen = show_view(LineChart(stoppable=True)).__enter__()
screen._live.on_msg(lambda *_: threads.append(threading.current_thread() is threading.main_thread()))
began = time.monotonic()
while time.monotonic() < began + 1.5 and not screen.stopped:
    screen.append({"step": len(threads), "loss": step(0)})
print(screen.stopped, *threads)
"""
AFTERWARDS = """
print(screen.stopped, *threads)
screen.__exit__(None, None, None)
print(repr(screen.trouble))
"""
# The step is last: in Python 3.11 the jump back from an `if` has no line, and IPython fails to show an interrupt there.
WATCHED = """
with nbdebug.watch(model, optimizer) as run:
    for number in range(100_000):
        if number == 20:
            print("training")
        step(number)
print("never")
"""
ASKABLE = """
from nbdebug.result import Result
from nbdebug.views import kernel_bridge

class Askable(Result):
    heard = []
    def view(self):
        return LineChart()
    def answer(self, asked):
        self.heard.append(threading.current_thread() is threading.main_thread())
        return {}

result = Askable()
name = kernel_bridge.register_result(result)
print(name, kernel_bridge._bridge.model_id)
"""
KEPT = "print(run.result.steps > 20, run.result.interrupted, len(optimizer._optimizer_step_post_hooks))"
ASKED = """
before = optimizer.param_groups[0]["lr"]
with nbdebug.watch(model, optimizer) as run:
    for number in range(600):
        step(number)
print(run.result.interrupted, optimizer.param_groups[0]["lr"] / before, [one.text for one in run.record.events][-1:])
"""


@pytest.fixture(scope="module", params=["6.31.0", "7.3.0", "7.4.0"])
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    work = tmp_path_factory.mktemp("kernel")
    cache: Path = request.config.cache.mkdir("kernels") if hasattr(request.config, "cache") else work
    try:
        with started(request.param, cache, work) as found:
            assert found.run(SETUP) == (request.param, "")
            yield found
    except subprocess.CalledProcessError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"ipykernel {request.param} is not to be had: {error.stderr.strip().splitlines()[-1]}")
    assert "Traceback" not in found.log.read_text()


def once(kernel: Kernel, subshell: str | None, *clicks: Message) -> Callable[[Message], None]:
    """Presses buttons, by default Stop, as soon as a view has said something."""
    pressed: list[str] = []

    def during(message: Message) -> None:
        content = message["content"]
        live = message["msg_type"] == "comm_msg" and content["data"].get("method") == "custom"
        if live and not pressed:
            pressed.append(content["comm_id"])
            for click in clicks or ({"kind": "stop"},):
                kernel.click(content["comm_id"], click, subshell)

    return during


def test_a_click_by_subshell_is_heard_at_once_on_another_thread(kernel: Kernel) -> None:
    if kernel.subshell is None:
        assert kernel.run("print(ipykernel.__version__)")[0].startswith("6.")
        return
    assert kernel.run(STOPPABLE, once(kernel, kernel.subshell)) == ("True False", "")
    assert kernel.run(AFTERWARDS) == ("True False\n''", "")


def test_a_click_by_the_shell_waits_for_the_end_of_the_cell_and_is_not_lost(kernel: Kernel) -> None:
    assert kernel.run(STOPPABLE, once(kernel, None)) == ("False", "")
    assert kernel.run(AFTERWARDS) == ("True True\n''", "")


def test_a_watched_loop_does_what_is_asked_where_it_can_hear(kernel: Kernel) -> None:
    clicks = {"kind": "pause"}, {"kind": "rate", "factor": 0.5}, {"kind": "resume"}, {"kind": "stop"}
    said = kernel.run(ASKED, once(kernel, kernel.subshell, *clicks))
    if kernel.subshell is None:
        assert said == ("False 1.0 []", "")
    else:
        assert said == ("True 0.5 ['stopped by the Stop button']", "")


def test_a_click_on_a_view_that_is_closed_is_no_error(kernel: Kernel) -> None:
    comms: list[str] = []

    def during(message: Message) -> None:
        if message["msg_type"] == "comm_open":
            comms.append(message["content"]["comm_id"])

    assert kernel.run("with show_view(LineChart(stoppable=True)) as screen:\n    pass", during) == ("", "")
    for way in {kernel.subshell, None}:
        kernel.click(comms[-1], {"kind": "stop"}, way)
    assert kernel.run("print(screen.stopped)") == ("False", "")


def test_what_a_page_asks_is_answered_between_cells_on_the_main_thread(kernel: Kernel) -> None:
    name, bridge = kernel.run(ASKABLE)[0].split()
    answers: list[str] = []

    def during(message: Message) -> None:
        if message["content"].get("text", "").startswith("busy"):
            for way in {kernel.subshell, None}:
                kernel.click(bridge, {"to": name, "ask": 1, "kind": "use"}, way)
        if message["content"].get("comm_id") == bridge:
            answers.append(message["content"]["data"]["content"]["kind"])

    clicks = len({kernel.subshell, None})
    assert kernel.run("print('busy')\ntime.sleep(1)\nprint(Askable.heard)", during) == ("busy\n[]", "")
    kernel.run("time.sleep(0.1)", during)
    assert kernel.run("print(Askable.heard)", during) == (str([True] * clicks), "")
    assert answers == ["use"] * clicks


def test_an_interrupt_ends_the_cell_and_keeps_what_was_seen(kernel: Kernel) -> None:
    def during(message: Message) -> None:
        if "training" in message["content"].get("text", ""):
            kernel.manager.interrupt_kernel()

    assert kernel.run(WATCHED, during) == ("training", "KeyboardInterrupt")
    assert kernel.run(KEPT) == ("True True 0", "")
