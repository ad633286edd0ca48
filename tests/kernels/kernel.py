"""A kernel with a chosen version of ipykernel, and its client in place of a front end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 60
Message = dict[str, Any]


def install_ipykernel(version: str, cache: Path) -> Path | None:
    """Install one version of ipykernel in a folder of its own; returns None if it is the installed version.

    Raises CalledProcessError if it cannot be installed.
    """
    if installed_version("ipykernel") == version:
        return None
    target = cache / f"ipykernel-{version}"
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        partial = target.with_name(f"{target.name}-{os.getpid()}")
        command = [*pip, "--upgrade", "--target", str(partial), f"ipykernel=={version}"]
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
        with suppress(OSError):  # another process has installed the same version
            partial.rename(target)
    return target


@dataclass
class Kernel:
    """A running kernel; JupyterLab sends clicks to ``subshell``, which is None if the kernel has no subshells."""

    manager: Any
    client: Any
    subshell: str | None
    log: Path

    def run(self, code: str, on_message: Callable[[Message], object] = lambda _: None) -> tuple[str, str]:
        """Run a cell; returns its printed text and the name of its error. ``on_message`` receives all messages."""
        request_id = self.client.execute(code)
        text, error = "", ""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=TIMEOUT_SECONDS)
            content = message["content"]
            on_message(message)
            if message["parent_header"].get("msg_id") != request_id:
                continue
            text += content["text"] if message["msg_type"] == "stream" else ""
            error = content["ename"] if message["msg_type"] == "error" else error
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                # ipykernel 7.0 to 7.3 may lose messages that arrive before its reply.
                wait_for_reply(self.client.get_shell_msg, request_id)
                return text.strip(), error
        raise TimeoutError(f"the cell is still running after {TIMEOUT_SECONDS} s; its output is {text!r}")

    def click(self, comm: str, content: Message, subshell: str | None) -> None:
        """Send the message of a button of a view."""
        data = {"method": "custom", "content": content}
        message = self.client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)


@contextmanager
def start_kernel(version: str, cache: Path, work: Path) -> Iterator[Kernel]:
    """Start a kernel of that version with the packages of this environment, in the folder ``work``."""
    installed = install_ipykernel(version, cache)
    paths = [*([str(installed)] if installed else []), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    log = work / f"{version}.log"
    manager = KernelManager(kernel_name="python3")
    with log.open("w") as errors:
        manager.start_kernel(env=environment, cwd=str(work), stderr=errors)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=TIMEOUT_SECONDS)
            info = client.kernel_info(reply=True, timeout=TIMEOUT_SECONDS)["content"]
            supported = "kernel subshells" in info.get("supported_features", [])
            subshell = send_control_request(client, "create_subshell_request")["subshell_id"] if supported else None
            yield Kernel(manager, client, subshell, log)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def send_control_request(client: Any, kind: str) -> Message:
    """Send a request on the control channel and return the content of its reply."""
    message = client.session.msg(kind, {})
    client.control_channel.send(message)
    return wait_for_reply(client.get_control_msg, message["header"]["msg_id"])


def wait_for_reply(get_message: Callable[..., Message], request_id: str) -> Message:
    """Return the content of the reply to a request."""
    while True:
        message = get_message(timeout=TIMEOUT_SECONDS)
        if message["parent_header"].get("msg_id") == request_id:
            return dict(message["content"])
