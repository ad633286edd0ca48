"""The JupyterLab server of this interpreter, with its own folders."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.browser import errors_of
from tests.lab import forked_kernels
from tests.lab.forked_kernels import kernel_command
from tests.lab.lab_page import LabPage

ROOT = Path(__file__).parents[2]
QUIET_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "extensionmanager-extension/plugin": {"enabled": False},
}
# Plugins of JupyterLab that Notebook 7 loads without what they need there: it reports these by itself, at random times.
ERRORS_OF_NOTEBOOK_7 = ("reading 'schema'", "Command 'filebrowser:open-path' not registered")


@dataclass
class LabServer:
    """A running server; its notebooks are in ``folder / "notebooks"``."""

    browser: Any
    folder: Path
    port: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    visit_numbers: Iterator[int] = field(default_factory=count)
    windows: dict[float, LabPage] = field(default_factory=dict)

    @property
    def notebooks(self) -> Path:
        """The root folder of the server."""
        return self.folder / "notebooks"

    @property
    def end_file(self) -> Path:
        """A file that tests create to end a loop in a notebook; opening a notebook removes it."""
        return self.notebooks / "end"

    def write(self, name: str, *sources: str) -> str:
        """Write a notebook with these code cells, and return its file name."""
        import nbformat

        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source.strip()) for source in sources])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.notebooks / name)
        return name

    @contextmanager
    def open(
        self, notebook: str, theme: str = "light", size: tuple[int, int] = (1200, 900), scale: float = 1
    ) -> Iterator[LabPage]:
        """A notebook in a window without errors; its kernel ends with the block.

        Loading JupyterLab takes seconds, so the next notebook reuses the window, unless the test failed.
        """
        self.write_settings("apputils-extension/themes", {"theme": f"JupyterLab {theme.title()}"})
        page = self.windows.pop(scale, None) or self.new_window(scale)
        address = f"http://127.0.0.1:{self.port}/lab/workspaces/visit{next(self.visit_numbers)}/tree/{notebook}"
        page.address = f"{address}?reset&token={self.token}"  # otherwise a reload also restores the last notebook
        page.set_appearance(theme, size)
        self.end_file.unlink(missing_ok=True)
        try:
            page.open(notebook, theme)
            yield page
            assert page.errors == [], page.errors
            page.close_notebook()
        except BaseException:
            page.page.context.close()
            raise
        finally:
            self.end_kernels()
        self.windows[scale] = page

    @contextmanager
    def open_in_notebook_7(self, notebook: str, size: tuple[int, int] = (1200, 900)) -> Iterator[LabPage]:
        """A notebook in a window of Jupyter Notebook without errors; its kernel ends with the block."""
        page = self.new_window(1)
        page.address = f"http://127.0.0.1:{self.port}/notebooks/{notebook}?token={self.token}"
        page.set_appearance("light", size)
        try:
            page.load()
            yield page
            errors = [error for error in page.errors if not any(text in error for text in ERRORS_OF_NOTEBOOK_7)]
            assert errors == [], errors
        finally:
            page.page.context.close()
            self.end_kernels()

    def new_window(self, scale: float) -> LabPage:
        """A new empty window."""
        context = self.browser.new_context(device_scale_factor=scale)
        return LabPage(context.new_page(), "", errors_of(context))

    def write_settings(self, plugin: str, values: dict[str, Any]) -> None:
        """Write the settings of a plugin of JupyterLab; they apply to pages loaded later."""
        file = self.folder / f"settings/@jupyterlab/{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))

    def request(self, path: str, method: str = "GET") -> Any:
        """Call the REST API of the server and return its response."""
        address, headers = f"http://127.0.0.1:{self.port}/api/{path}", {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(address, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read() or "null")

    def end_kernels(self) -> None:
        """Shut down every kernel, busy or not."""
        for session in self.request("sessions"):
            self.request(f"sessions/{session['id']}", "DELETE")

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the first response; raises RuntimeError with the server log if it exits instead."""
        deadline = time.monotonic() + 90
        while True:
            try:
                self.request("status")
                return
            except (urllib.error.URLError, OSError):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()[-3000:]) from None
                time.sleep(0.1)

    def command(self) -> list[str]:
        """The command line of the server."""
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.notebooks,
            "ServerApp.allow_root": True,
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
            "JupyterNotebookApp.expose_app_in_browser": True,
            "LabApp.user_settings_dir": self.folder / "settings",
            "LabApp.workspaces_dir": self.folder / "workspaces",
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "-m", "jupyterlab", "--no-browser", *arguments]

    def environment(self) -> dict[str, str]:
        """All folders of Jupyter and IPython inside ``folder``, and the tested package on the path of kernels."""
        names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        folders = {name: str(self.folder / name.lower()) for name in names}
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        threads = {"OMP_NUM_THREADS": "1", "JUPYTER_PREFER_ENV_PATH": "0", "JUPYTER_NO_CONFIG": ""}
        return {**os.environ, **folders, **threads, "PYTHONPATH": paths}


@contextmanager
def run_server(browser: Any, folder: Path) -> Iterator[LabServer]:
    """Run the JupyterLab of this interpreter; it writes only to ``folder``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        lab = LabServer(browser, folder, probe.getsockname()[1])
    lab.notebooks.mkdir(parents=True)
    kernel = folder / "jupyter_data_dir/kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True)
    address = str(folder / "kernels")
    kernel.write_text(json.dumps({"argv": kernel_command(address), "display_name": "Python 3", "language": "python"}))
    for plugin, values in QUIET_SETTINGS.items():
        lab.write_settings(plugin, values)
    with (folder / "log").open("wb") as log:
        commands = [sys.executable, forked_kernels.__file__, address], lab.command()
        processes = [
            subprocess.Popen(command, env=lab.environment(), stdout=log, stderr=log, cwd=folder) for command in commands
        ]
        try:
            lab.wait_until_ready(processes[1])
            yield lab
        finally:
            for process in processes:
                process.kill()  # the kernels ended with their windows
                process.wait()
