"""A kernel of a given version, spoken to as a front end does, without a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[2]
SECONDS = 60
Message = dict[str, Any]


def folder(version: str, cache: Path) -> Path | None:
    """A folder with that ipykernel alone, to be put before all others; None where it is the installed one.

    Raises CalledProcessError where it cannot be had.
    """
    if installed("ipykernel") == version:
        return None
    target = cache / f"ipykernel-{version}"
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        parts = target.with_name(f"{target.name}-{os.getpid()}")
        command = [*pip, "--upgrade", "--target", str(parts), f"ipykernel=={version}"]
        subprocess.run(command, check=True, env=free, capture_output=True, text=True)
        with suppress(OSError):  # another process has just put the same there
            parts.rename(target)
    return target


@dataclass
class Kernel:
    """A running kernel; ``subshell`` is where JupyterLab sends clicks, None where the kernel has no subshells."""

    manager: Any
    client: Any
    subshell: str | None
    log: Path

    def run(self, code: str, during: Callable[[Message], object] = lambda _: None) -> tuple[str, str]:
        """What a cell printed, and the name of the error that ended it; ``during`` is given all that it sends."""
        sent = self.client.execute(code)
        said, error = "", ""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            content = message["content"]
            during(message)
            if message["parent_header"].get("msg_id") != sent:
                continue
            said += content["text"] if message["msg_type"] == "stream" else ""
            error = content["ename"] if message["msg_type"] == "error" else error
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                reply(self.client.get_shell_msg, sent)  # ipykernel 7.0 to 7.3 may not hear what comes while it replies
                return said.strip(), error
        raise TimeoutError(f"the cell is still running after {SECONDS} s; it said {said!r}")

    def click(self, comm: str, content: Message, subshell: str | None) -> None:
        """Presses a button of a view."""
        data = {"method": "custom", "content": content}
        message = self.client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)


@contextmanager
def started(version: str, cache: Path, work: Path) -> Iterator[Kernel]:
    """A kernel of that version on the packages of this environment, in the folder ``work``."""
    first = folder(version, cache)
    paths = [*([str(first)] if first else []), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    log = work / f"{version}.log"
    manager = KernelManager(kernel_name="python3")
    with log.open("w") as errors:
        manager.start_kernel(env=environment, cwd=str(work), stderr=errors)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=SECONDS)
            info = client.kernel_info(reply=True, timeout=SECONDS)["content"]
            supported = "kernel subshells" in info.get("supported_features", [])
            subshell = asked(client, "create_subshell_request")["subshell_id"] if supported else None
            yield Kernel(manager, client, subshell, log)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def asked(client: Any, kind: str) -> Message:
    """The answer to a request on the control channel."""
    message = client.session.msg(kind, {})
    client.control_channel.send(message)
    return reply(client.get_control_msg, message["header"]["msg_id"])


def reply(get: Callable[..., Message], sent: str) -> Message:
    """What answers the request ``sent`` among the messages of a channel."""
    while True:
        message = get(timeout=SECONDS)
        if message["parent_header"].get("msg_id") == sent:
            return dict(message["content"])
