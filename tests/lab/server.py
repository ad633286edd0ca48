"""The real JupyterLab of this interpreter, with folders of its own."""

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
from tests.lab.lab_page import LabPage

ROOT = Path(__file__).parents[2]
PYTHON3 = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python 3"}
QUIET = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "extensionmanager-extension/plugin": {"enabled": False},
}


@dataclass
class Lab:
    """A server that runs: its notebooks lie in ``folder / "notebooks"``."""

    browser: Any
    folder: Path
    port: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    visits: Iterator[int] = field(default_factory=count)
    windows: dict[float, LabPage] = field(default_factory=dict)

    @property
    def notebooks(self) -> Path:
        """The root folder of the server."""
        return self.folder / "notebooks"

    @contextmanager
    def open(
        self, notebook: str, theme: str = "light", size: tuple[int, int] = (1200, 900), scale: float = 1
    ) -> Iterator[LabPage]:
        """A notebook in a window, which may not complain; its kernel ends with it.

        To load JupyterLab takes seconds, so a window is kept for the next notebook, unless its test failed.
        """
        self.set("apputils-extension/themes", {"theme": f"JupyterLab {theme.title()}"})
        page = self.windows.pop(scale, None) or self.window(scale)
        address = f"http://127.0.0.1:{self.port}/lab/workspaces/visit{next(self.visits)}/tree/{notebook}"
        page.address = f"{address}?token={self.token}"
        page.look(theme, size)
        try:
            page.open(notebook, theme)
            yield page
            assert page.errors == [], page.errors
            page.leave()
        except BaseException:
            page.page.context.close()
            raise
        finally:
            self.end_kernels()
        self.windows[scale] = page

    def window(self, scale: float) -> LabPage:
        """A new window, still empty."""
        context = self.browser.new_context(device_scale_factor=scale)
        return LabPage(context.new_page(), "", errors_of(context))

    def set(self, plugin: str, values: dict[str, Any]) -> None:
        """Writes the settings of a plugin of JupyterLab; they count from the next page on."""
        file = self.folder / f"settings/@jupyterlab/{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))

    def ask(self, path: str, method: str = "GET") -> Any:
        """What the server answers."""
        address, given = f"http://127.0.0.1:{self.port}/api/{path}", {"Authorization": f"token {self.token}"}
        with urllib.request.urlopen(urllib.request.Request(address, headers=given, method=method), timeout=30) as reply:
            return json.loads(reply.read() or "null")

    def end_kernels(self) -> None:
        """Ends every kernel, busy or not."""
        for session in self.ask("sessions"):
            self.ask(f"sessions/{session['id']}", "DELETE")

    def wait_until_up(self, process: subprocess.Popen[bytes]) -> None:
        """Waits for the first answer, and raises with the server's own words if it ends instead."""
        deadline = time.monotonic() + 90
        while True:
            try:
                return self.ask("status")
            except (urllib.error.URLError, OSError):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()[-3000:]) from None
                time.sleep(0.1)

    def command(self) -> list[str]:
        """What starts it."""
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.notebooks,
            "ServerApp.allow_root": True,
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
            "LabApp.user_settings_dir": self.folder / "settings",
            "LabApp.workspaces_dir": self.folder / "workspaces",
        }
        given = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "-m", "jupyterlab", "--no-browser", *given]

    def environment(self) -> dict[str, str]:
        """Every folder of Jupyter and IPython in ``folder``; kernels import the package that is tested."""
        names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        homes = {name: str(self.folder / name.lower()) for name in names}
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        threads = {"OMP_NUM_THREADS": "1", "JUPYTER_PREFER_ENV_PATH": "0", "JUPYTER_NO_CONFIG": ""}
        return {**os.environ, **homes, **threads, "PYTHONPATH": paths}


@contextmanager
def serving(browser: Any, folder: Path) -> Iterator[Lab]:
    """A server of this interpreter's JupyterLab that keeps everything it writes in ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        lab = Lab(browser, folder, free.getsockname()[1])
    lab.notebooks.mkdir(parents=True)
    kernel = folder / "jupyter_data_dir/kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps({**PYTHON3, "language": "python"}))
    for plugin, values in QUIET.items():
        lab.set(plugin, values)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(lab.command(), env=lab.environment(), stdout=log, stderr=log, cwd=folder)
        try:
            lab.wait_until_up(process)
            yield lab
        finally:
            process.kill()  # its kernels have ended with their windows
            process.wait()
