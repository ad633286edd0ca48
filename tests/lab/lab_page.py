"""A notebook that is open in JupyterLab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Where the last notebook was closed a launcher may come, late, and take the focus from the one that was opened since.
OPENED = """() => {
  const all = [...(window.jupyterapp?.shell?.widgets("main") ?? [])];
  return all.some((one) => one.context?.isReady && !one.isDisposed);
}"""
READY = """() => {
  window.panel = [...jupyterapp.shell.widgets("main")].find((one) => one.context?.isReady && !one.isDisposed);
  jupyterapp.shell.activateById(panel.id);
  window.running = 0;
  jupyterapp.shell.collapseLeft();
  jupyterapp.shell.collapseRight();
}"""
OPEN = """async ([notebook, theme]) => {
  await jupyterapp.commands.execute("apputils:change-theme", {theme});
  await jupyterapp.commands.execute("docmanager:open", {path: notebook});
}"""
LEAVE = """async () => {
  await panel.sessionContext.shutdown();
  panel.dispose();
  for (let i = 0; i < 10 && ![...jupyterapp.shell.widgets("main")].length; i++) {
    await new Promise((done) => setTimeout(done, 50));
  }
}"""
RUN = """command => {
  running += 1;
  jupyterapp.commands.execute(command).finally(() => { running -= 1; });
}"""
ABSENT = """() => {
  panel.model.setMetadata("kernelspec", {name: "absent", display_name: "Absent", language: "absent"});
  panel.model.setMetadata("language_info", {name: "absent"});
}"""
OUTPUTS = "i => panel.content.model.cells.get(i).toJSON().outputs"


@dataclass
class LabPage:
    """One window of JupyterLab with one notebook; ``errors`` is all that its pages complained of."""

    page: Any
    address: str
    errors: list[str]
    left: bool = False

    def look(self, theme: str, size: tuple[int, int]) -> None:
        """Gives the window its size, and its wish for light or dark."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=theme)

    def open(self, notebook: str, theme: str) -> None:
        """Opens the notebook, in the JupyterLab that has been left here if there is one."""
        if not self.left:
            return self.load()
        self.left = False
        self.errors.clear()  # what a kernel says that is ended in mid cell
        self.page.evaluate(OPEN, [notebook, f"JupyterLab {theme.title()}"])
        self.page.wait_for_function(OPENED, timeout=60_000)
        self.page.evaluate(READY)
        self.wait_ready()

    def leave(self) -> None:
        """Ends the kernel and closes the notebook, saved or not."""
        self.page.evaluate(LEAVE)
        self.left = True

    def load(self) -> None:
        """Loads the window and waits until its notebook is there and its kernel can be asked."""
        self.load_alone()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Waits until the kernel can be asked."""
        self.page.wait_for_function("() => panel.sessionContext.isReady", timeout=60_000)
        self.wait_idle()

    def load_alone(self) -> None:
        """Loads the window and waits for its notebook, whatever its kernel does."""
        self.page.goto(self.address)
        self.page.wait_for_function(OPENED, timeout=60_000)
        self.page.evaluate(READY)

    def run_cell(self, index: int) -> None:
        """Starts a cell and does not wait for it."""
        self.page.evaluate("i => { panel.content.deselectAll(); panel.content.activeCellIndex = i; }", index)
        self.page.evaluate(RUN, "notebook:run-cell")

    def run_all(self) -> None:
        """Starts all cells and does not wait for them."""
        self.page.evaluate(RUN, "notebook:run-all-cells")

    def trust(self) -> None:
        """Lets saved outputs run their scripts, as "Trust Notebook" does."""
        self.page.evaluate("() => { for (const cell of panel.content.model.cells) cell.trusted = true; }")

    def interrupt(self) -> None:
        """Does what the interrupt button does."""
        self.page.evaluate("jupyterapp.commands.execute('notebook:interrupt-kernel')")

    @property
    def busy(self) -> bool:
        """Whether a cell that was started here is still running."""
        return bool(self.page.evaluate("running > 0"))

    def wait_idle(self, timeout: float = 120) -> None:
        """Waits until every started cell has ended."""
        idle = "() => running === 0 && panel.sessionContext.session?.kernel?.status === 'idle'"
        self.page.wait_for_function(idle, timeout=1000 * timeout)

    def save(self) -> None:
        """Saves the notebook, as Ctrl+S does."""
        self.page.evaluate("() => panel.context.save()")

    def reopen_without_kernel(self) -> None:
        """Saves for a machine that lacks the kernel, ends it, loads the window anew and says "No Kernel" there."""
        self.page.evaluate(ABSENT)
        self.save()
        self.page.evaluate("() => panel.sessionContext.shutdown()")
        self.load_alone()
        dialog = self.page.locator(".jp-Dialog")
        dialog.get_by_role("button", name="No Kernel").click()
        dialog.wait_for(state="detached")

    def cell(self, index: int) -> Any:
        """The cell, as a locator."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Any:
        """What stands under a cell, as a locator."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """What would be saved under a cell."""
        return list(self.page.evaluate(OUTPUTS, index))

    def screenshot(self, path: Path) -> None:
        """A picture of the window."""
        self.page.screenshot(path=path)
