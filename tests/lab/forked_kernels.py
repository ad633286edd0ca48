"""Kernels forked from a process that has imported their packages, since the imports of each would take seconds.

The server starts a small process in place of a kernel. It forwards signals to the forked kernel, and both end together.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from threading import Thread
from typing import NoReturn


def kernel_command(address: str) -> list[str]:
    """Return the command line that starts a kernel, as in a kernel specification."""
    return [sys.executable, "-S", "-E", __file__, address, "{connection_file}"]


def serve(address: str) -> None:
    """Fork a kernel for each connection."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        _import_packages()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended kernels leave no zombies
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _run_kernel(connection)
            connection.close()


def _import_packages() -> None:
    """Import what the cells of most notebooks import."""
    import anywidget  # noqa: F401
    import ipykernel.kernelapp  # noqa: F401
    import torch

    from nbdebug.rule_engine.rule_registry import load_rules

    load_rules()
    torch.optim.SGD([torch.zeros(1)])  # the first optimizer imports the compiler


def _run_kernel(connection: socket.socket) -> NoReturn:
    """Run a kernel in this process until it ends or the process that stands for it is killed."""
    from ipykernel import kernelapp

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = json.loads(connection.makefile().readline())
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[1:] = ["-f", request["connection_file"]]
    connection.sendall(f"{os.getpid()}\n".encode())
    Thread(target=_end_with, args=(connection,), daemon=True).start()
    sys.exit(kernelapp.launch_new_instance())  # type: ignore[no-untyped-call]


def _end_with(connection: socket.socket) -> None:
    """End this process when the other end of the connection is closed."""
    connection.recv(1)
    os._exit(1)


def start_kernel(address: str, connection_file: str) -> None:
    """Start a kernel, forward signals to it and wait for its end."""
    request = {"connection_file": connection_file, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        connection.sendall(f"{json.dumps(request)}\n".encode())
        reader = connection.makefile()
        kernel = int(reader.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.killpg(kernel, number))
        reader.read()


if __name__ == "__main__":
    del sys.path[0]  # this folder
    (serve if len(sys.argv) == 2 else start_kernel)(*sys.argv[1:])
