"""A watched run that is held at a chosen moment while something happens to its page.

``check_page`` runs one pair of a disturbance and a moment: the page is as far as the run before and after, it shows no
earlier run, Stop is there and ends the run, and what is saved has every step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat.reader import NotJSONError

from tests.lab.conftest import SLOW_SETUP
from tests.lab.cuttable_network import CuttableNetwork
from tests.lab.findings_on_page import shown_steps
from tests.lab.lab_page import KERNEL_IS_IDLE, LabPage
from tests.lab.server import LabServer

MOMENTS = (
    "watch opened", "forward pass of step 1", "step 1", "backward pass of step 7", "step 7", "validation pass",
    "step 60", "paused", "loop ended", "cell ended",
)  # fmt: skip
DISTURBANCES = ("reload", "close and reopen", "kernel restart", "network cut", "second tab", "autosave")

HOLDING_SETUP = f"""{SLOW_SETUP}
import os


def hold(name):
    if name == moment:
        open("held", "w").close()
        while not os.path.exists("go on"):
            time.sleep(0.05)


def plain_forward(self, x):
    hold(place)
    time.sleep(0.02)
    return self.layer(x)


SlowModel.forward = plain_forward
moment, place = "", None
with dbg.watch(every=4) as earlier_run:
    train(9)
"""
# The first output of the cell is that of an earlier run, as when a cell runs for the second time.
RUN = """
moment, step, counted = {moment!r}, 0, 0
with dbg.watch(every=4) as run:
    hold("watch opened")
    while not os.path.exists("end"):
        for x, y in loader:
            step += 1
            place = f"forward pass of step {{step}}"
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            place = None
            loss.register_hook(lambda gradient: hold(f"backward pass of step {{step}}"))
            loss.backward()
            optimizer.step()
            counted += 1
            hold(f"step {{step}}")
        model.eval()
        place = "validation pass" if step > 20 else None
        with torch.no_grad():
            loss_fn(model(x), y)
        place = None
        model.train()
    hold("loop ended")
"""
PRINT_STEPS = "print(run.result.steps, counted, len(run.record.series('loss')[0]))"
TIMEOUT = 90_000  # a machine may be busy
AUTOSAVE = {"docmanager-extension/plugin": {"autosave": True, "autosaveInterval": 1}}
CLOSE_DIALOGS = "() => { setInterval(() => document.querySelector('.jp-Dialog .jp-mod-reject')?.click(), 200); }"
STEPS_GROW = (
    "([node, least]) => Number((/([\\d,]+) steps/.exec(node.textContent)?.[1] ?? '0').replace(',', '')) > least"
)
RUNNING = re.compile(r"Training: running, as of step ([\d,]+), [\d-]{10} [\d:]{8}")


@dataclass
class HeldRun:
    """A notebook whose second cell ran before and runs again, held at a moment."""

    server: LabServer
    lab: LabPage
    network: CuttableNetwork
    moment: str
    seconds: float = 3.0
    saves_itself: bool = False

    @property
    def is_live(self) -> bool:
        """Whether the cell still runs at this moment."""
        return self.moment != "cell ended"

    def start(self) -> None:
        """Run the cell to its end once, save, run it again, and wait for the moment."""
        files = [self.server.notebooks / name for name in ("end", "go on", "held")]
        for file in files[:2]:
            file.touch()
        self.lab.run_cells(0, 1)
        self.save(self.lab)
        for file in files:
            file.unlink(missing_ok=True)
        self.lab.run_cell(1)
        if self.moment == "paused":
            self.button("Pause").click(timeout=TIMEOUT)
            self.button("Resume").wait_for(timeout=TIMEOUT)
        elif self.moment in ("loop ended", "cell ended"):
            self.wait_for_steps(self.lab, 10)
            self.server.end_file.touch()
        if self.moment == "cell ended":
            self.lab.wait_idle(60)
            self.wait_for_steps(self.lab, 10)
        elif self.moment != "paused":
            self.lab.wait_until((self.server.notebooks / "held").exists, timeout=60)
            self.stop(self.lab).wait_for(timeout=TIMEOUT)

    def button(self, name: str) -> Any:
        """A button of the output of the cell."""
        return self.lab.output(1).get_by_role("button", name=name)

    def stop(self, lab: LabPage) -> Any:
        """The Stop button of the cell in a window; a finding below the run has a hidden one, for its trial."""
        return lab.output(1).locator(".nb-stop:visible")

    def wait_for_steps(self, lab: LabPage, more_than: int) -> int:
        """Wait until the page of the cell is past a step, and return its step."""
        status = lab.output(1).locator(".nb-status").first
        status.wait_for(timeout=TIMEOUT)
        lab.page.wait_for_function(STEPS_GROW, arg=[status.element_handle(), more_than], timeout=TIMEOUT)
        return shown_steps(lab, 1)

    def save(self, lab: LabPage) -> None:
        """Save, or wait until JupyterLab has: it reports a conflict if a save begins during its own one."""
        if self.saves_itself:
            lab.wait_until(lambda: not lab.page.evaluate("panel.context.model.dirty"), timeout=120)
        else:
            lab.save()

    def go_on(self) -> None:
        """End the hold, or the pause."""
        if self.moment == "paused":
            self.button("Resume").click(timeout=TIMEOUT)
        (self.server.notebooks / "go on").touch()

    def saved_output(self) -> Any:
        """The first output of the cell on disk."""
        path = self.server.notebooks / self.lab.page.evaluate("panel.context.path")
        return nbformat.read(path, 4).cells[1].outputs[0]

    def saved_step(self) -> int:
        """The step of the running picture on disk."""
        output = self.saved_output()
        match = RUNNING.fullmatch(output.data["text/plain"])
        assert match, output.data["text/plain"][:200]
        assert "Running, as of step" in output.data["text/html"]
        assert not [name for name in output.data if "widget" in name]
        return int(match[1].replace(",", ""))


def reload(run: HeldRun) -> None:
    """Reload the window."""
    run.lab.load_notebook()


def close_and_reopen(run: HeldRun) -> None:
    """Close the page, and open it some seconds later."""
    run.lab.page.goto("about:blank")
    run.lab.page.wait_for_timeout(1000 * run.seconds)
    run.lab.load_notebook()


def cut_network(run: HeldRun) -> None:
    """Cut all connections for some seconds."""
    with run.network.cut():
        run.lab.page.wait_for_timeout(1000 * run.seconds)
    run.lab.page.evaluate(CLOSE_DIALOGS)  # JupyterLab reports that the server was not reachable


def wait_for_autosave(run: HeldRun) -> None:
    """Wait until JupyterLab has saved the present run by itself."""
    run.lab.wait_until(lambda: _is_saved(run), timeout=120)  # a picture that costs much is taken seldom


def _is_saved(run: HeldRun) -> bool:
    """Whether the output on disk is that of the run at its present step."""
    try:
        text = run.saved_output().data["text/plain"]
    except NotJSONError:  # the file is being written
        return False
    if not run.is_live:
        return f" {shown_steps(run.lab, 1):,} steps" in text
    return bool(RUNNING.fullmatch(text)) and run.saved_step() >= shown_steps(run.lab, 1)


ACTIONS: dict[str, Callable[[HeldRun], None]] = {
    "reload": reload,
    "close and reopen": close_and_reopen,
    "network cut": cut_network,
    "autosave": wait_for_autosave,
}


@contextmanager
def held_run(server: LabServer, name: str, moment: str, autosave: bool = False) -> Iterator[HeldRun]:
    """Open a notebook through a network that can be cut, with its cell held at a moment."""
    notebook = server.write(name, HOLDING_SETUP, RUN.format(moment=moment), PRINT_STEPS)
    for plugin, values in AUTOSAVE.items():
        server.write_settings(plugin, values if autosave else {"autosave": False})
    with CuttableNetwork(server.port) as network:
        lab = server.new_window(1)
        lab.set_appearance("light", (1200, 900))
        lab.address = f"http://127.0.0.1:{network.port}/lab/tree/{notebook}?reset&token={server.token}"
        try:
            lab.load()
            run = HeldRun(server, lab, network, moment, saves_itself=autosave)
            run.start()
            yield run
        finally:
            lab.page.context.close()
            (server.notebooks / "go on").touch()
            server.end_kernels()


def check_page(server: LabServer, name: str, disturbance: str, moment: str) -> str:
    """Disturb the page of a run at a moment and check it; return what was seen, and raise if something is not true."""
    with held_run(server, name, moment, autosave=disturbance == "autosave") as run:
        if disturbance == "kernel restart":
            return check_restart(run)
        before = shown_steps(run.lab, 1)
        with ExitStack() as stack:
            lab = run.lab
            if disturbance == "second tab":
                lab = LabPage(run.lab.page.context.new_page(), run.lab.address, [])
                stack.callback(lab.page.close)
                lab.load_notebook()
            else:
                ACTIONS[disturbance](run)
            return check_run_goes_on(run, lab, before)


def check_run_goes_on(run: HeldRun, lab: LabPage, before: int) -> str:
    """Check that the page in a window shows the run, stops it, and that every step is in what is saved."""
    lab.cell(1).scroll_into_view_if_needed()
    if run.is_live:
        run.stop(lab).wait_for(timeout=TIMEOUT)
        assert run.stop(lab).is_enabled()
    else:
        lab.output(1).get_by_text("Ended 20").first.wait_for(timeout=TIMEOUT)
    lab.wait_until(lambda: shown_steps(lab, 1) >= before, timeout=60)
    check_one_page(lab)
    assert "Running, as of step" not in lab.output(1).inner_text()
    run.go_on()
    after = before
    if run.is_live and run.moment != "loop ended":
        after = run.wait_for_steps(lab, before)
        run.stop(lab).click(timeout=TIMEOUT)
        lab.output(1).get_by_text("interrupted").first.wait_for(timeout=TIMEOUT)
    lab.page.wait_for_function(f"() => {KERNEL_IS_IDLE}", timeout=60_000)
    lab.output(1).get_by_text("Ended 20").first.wait_for(timeout=TIMEOUT)
    assert run.stop(lab).count() == 0
    return f"{before} steps before, {after} after, {check_end(run, lab)} in all"


def check_one_page(lab: LabPage) -> None:
    """Check that the cell shows one page of a run; its script may draw it after the line below it is there."""
    heading = lab.output(1).get_by_role("heading", name="Training")
    heading.first.wait_for(timeout=TIMEOUT)
    assert heading.count() == 1


def check_end(run: HeldRun, lab: LabPage) -> int:
    """Check that the result, the record and the file have every step of a run that ended; return their number."""
    lab.wait_for_kernel()
    lab.run_cells(2)
    steps, counted, losses = map(int, lab.outputs(2)[0]["text"].split())
    assert counted <= steps == losses <= counted + 1, (counted, steps, losses)  # Stop may end the loop before its count
    run.save(lab)
    output = run.saved_output()
    assert output.data["text/plain"].startswith("nbdebug watch:"), output.data["text/plain"][:200]
    assert f"{steps:,} steps" in output.data["text/plain"]
    assert "Running, as of" not in output.data["text/html"]
    return steps


def wait_for_picture(run: HeldRun, step: int) -> None:
    """Wait until a save writes the picture of a step; the notebook asks for one after each change of the page.

    JupyterLab writes nothing if a save begins during another one: then the file still has the earlier run.
    """

    def is_current() -> bool:
        run.lab.save()
        is_running = RUNNING.fullmatch(run.saved_output().data["text/plain"]) is not None
        return is_running and run.saved_step() >= step

    if run.is_live:
        run.lab.wait_until(is_current, timeout=30)


def check_restart(run: HeldRun) -> str:
    """Check that a picture without buttons is left when the kernel restarts, and that the cell can run again."""
    before = shown_steps(run.lab, 1)
    wait_for_picture(run, before)
    run.lab.restart_kernel()
    if run.is_live:
        run.lab.output(1).get_by_text("No connection to Python").first.wait_for(timeout=TIMEOUT)
        assert run.stop(run.lab).count() == 0
        assert shown_steps(run.lab, 1) >= before
        run.lab.save()
        assert run.saved_step() >= before
    run.lab.page.evaluate("() => { running = 0; }")  # the command of the cell that was killed never ends
    for file in ("held", "go on"):
        (run.server.notebooks / file).unlink(missing_ok=True)
    run.server.end_file.touch()
    (run.server.notebooks / "go on").touch()
    run.lab.run_cells(0, 1)
    run.lab.output(1).get_by_text("Ended 20").first.wait_for(timeout=TIMEOUT)
    check_one_page(run.lab)
    assert "No connection" not in run.lab.output(1).inner_text()
    return f"{before} steps before"
