"""A JupyterLab window with one notebook."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

# A launcher may open late after a notebook was closed, and take the focus from the next notebook.
NOTEBOOK_IS_READY = """() => {
  const widgets = [...(window.jupyterapp?.shell?.widgets("main") ?? [])];
  return widgets.some((widget) => widget.context?.isReady && !widget.isDisposed);
}"""
PREPARE_PANEL = """() => {
  window.panel = [...jupyterapp.shell.widgets("main")].find((widget) => widget.context?.isReady && !widget.isDisposed);
  jupyterapp.shell.activateById(panel.id);
  window.running = 0;
  jupyterapp.shell.collapseLeft();
  jupyterapp.shell.collapseRight();
}"""
OPEN_NOTEBOOK = """async ([notebook, theme]) => {
  await jupyterapp.commands.execute("apputils:change-theme", {theme});
  await jupyterapp.commands.execute("docmanager:open", {path: notebook});
}"""
CLOSE_NOTEBOOK = """async () => {
  await panel.sessionContext.shutdown();
  panel.dispose();
  for (let i = 0; i < 10 && ![...jupyterapp.shell.widgets("main")].length; i++) {
    await new Promise((done) => setTimeout(done, 50));
  }
}"""
RUN_COMMAND = """command => {
  running += 1;
  jupyterapp.commands.execute(command).finally(() => { running -= 1; });
}"""
USE_ABSENT_KERNEL = """() => {
  panel.model.setMetadata("kernelspec", {name: "absent", display_name: "Absent", language: "absent"});
  panel.model.setMetadata("language_info", {name: "absent"});
}"""
OUTPUTS = "i => panel.content.model.cells.get(i).toJSON().outputs"
FOCUS_STATE = "[panel.content.activeCellIndex, panel.content.mode, panel.content.model.cells.length]"
# The status of a kernel is "idle" for a moment after each control message, even while it runs a cell.
KERNEL_ANSWERS = """milliseconds => {
  const request = panel.sessionContext.session.kernel.requestExecute({code: "", silent: true, store_history: false});
  const limit = new Promise((done) => setTimeout(() => done(false), milliseconds));
  return Promise.race([request.done.then(() => true), limit]);
}"""
KERNEL_IS_IDLE = "panel.sessionContext.session?.kernel?.status === 'idle'"


@dataclass
class LabPage:
    """One window of JupyterLab with one notebook; ``errors`` collects the errors of its pages."""

    page: Any
    address: str
    errors: list[str]
    is_reusable: bool = False

    def set_appearance(self, theme: str, size: tuple[int, int]) -> None:
        """Set the size of the window and its preference for light or dark."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=theme)

    def open(self, notebook: str, theme: str) -> None:
        """Open the notebook, in the JupyterLab of the last notebook if there was one."""
        if not self.is_reusable:
            return self.load()
        self.is_reusable = False
        self.errors.clear()  # those of the kernel that was shut down
        self.page.evaluate(OPEN_NOTEBOOK, [notebook, f"JupyterLab {theme.title()}"])
        self.page.wait_for_function(NOTEBOOK_IS_READY, timeout=60_000)
        self.page.evaluate(PREPARE_PANEL)
        self.wait_for_kernel()

    def close_notebook(self) -> None:
        """Shut down the kernel and close the notebook without saving."""
        self.page.evaluate(CLOSE_NOTEBOOK)
        self.is_reusable = True

    def load(self) -> None:
        """Load the window and wait for its notebook and its kernel."""
        self.load_notebook()
        self.wait_for_kernel()

    def wait_for_kernel(self) -> None:
        """Wait until the kernel is ready and idle."""
        self.page.wait_for_function("() => panel.sessionContext.isReady", timeout=60_000)
        self.wait_idle()

    def load_notebook(self) -> None:
        """Load the window and wait for its notebook, but not for its kernel."""
        self.page.goto(self.address)
        self.page.wait_for_function(NOTEBOOK_IS_READY, timeout=60_000)
        self.page.evaluate(PREPARE_PANEL)

    def run_cell(self, index: int) -> None:
        """Start a cell without waiting for it."""
        self.page.evaluate("i => { panel.content.deselectAll(); panel.content.activeCellIndex = i; }", index)
        self.page.evaluate(RUN_COMMAND, "notebook:run-cell")

    def run_cells(self, *indices: int) -> None:
        """Run cells one after the other, each to its end."""
        for index in indices:
            self.run_cell(index)
            self.wait_idle()

    def run_all(self) -> None:
        """Start all cells without waiting for them."""
        self.page.evaluate(RUN_COMMAND, "notebook:run-all-cells")

    def trust(self) -> None:
        """Allow the scripts of saved outputs, like "Trust Notebook"."""
        self.page.evaluate("() => { for (const cell of panel.content.model.cells) cell.trusted = true; }")

    def interrupt(self) -> None:
        """Interrupt the kernel."""
        self.page.evaluate("jupyterapp.commands.execute('notebook:interrupt-kernel')")

    def restart_kernel(self) -> None:
        """Restart the kernel and wait until it is idle."""
        self.page.evaluate("() => panel.sessionContext.session.kernel.restart()")
        self.page.wait_for_function(f"() => {KERNEL_IS_IDLE}")

    @property
    def is_busy(self) -> bool:
        """True while a cell that was started here runs."""
        return bool(self.page.evaluate("running > 0"))

    def wait_idle(self, timeout: float = 120) -> None:
        """Wait until every started cell has ended."""
        self.page.wait_for_function(f"() => running === 0 && {KERNEL_IS_IDLE}", timeout=1000 * timeout)

    def kernel_answers(self, seconds: float) -> bool:
        """Return whether the kernel answers within this time: whether all its cells have ended then."""
        self.page.wait_for_function("() => panel.sessionContext.isReady", timeout=60_000)
        return bool(self.page.evaluate(KERNEL_ANSWERS, 1000 * seconds))

    def wait_until(self, is_met: Callable[[], bool], timeout: float) -> None:
        """Wait until a condition is met; its locators are resolved each time, since a page may be drawn again."""
        deadline = time.monotonic() + timeout
        while not is_met():
            assert time.monotonic() < deadline, "the condition was not met in time"
            self.page.wait_for_timeout(50)

    def save(self) -> None:
        """Save the notebook."""
        self.page.evaluate("() => panel.context.save()")

    def reopen_without_kernel(self) -> None:
        """Save for a kernel that is not installed, shut down the kernel, reload the window and choose "No Kernel"."""
        self.page.evaluate(USE_ABSENT_KERNEL)
        self.save()
        self.page.evaluate("() => panel.sessionContext.shutdown()")
        self.load_notebook()
        dialog = self.page.locator(".jp-Dialog")
        dialog.get_by_role("button", name="No Kernel").click()
        dialog.wait_for(state="detached")

    def cell(self, index: int) -> Any:
        """The cell, as a locator."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Any:
        """The output area of a cell, as a locator."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """The outputs of a cell as they would be saved."""
        return list(self.page.evaluate(OUTPUTS, index))

    def display_formats(self, index: int) -> list[set[str]]:
        """The formats of each display in the outputs of a cell."""
        return [set(output["data"]) for output in self.outputs(index) if "data" in output]

    def focus_state(self) -> list[Any]:
        """The index of the active cell, the mode of the notebook and the number of cells."""
        return list(self.page.evaluate(FOCUS_STATE))


OpenNotebook = Callable[..., AbstractContextManager[LabPage]]
