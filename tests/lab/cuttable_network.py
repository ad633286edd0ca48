"""A connection between browser and server that can be cut, open channels included.

The offline mode of a browser leaves open channels as they are.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CuttableNetwork:
    """Forwards the connections of a local port to another one; while it is cut, it has none and accepts none."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port to connect to."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> CuttableNetwork:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._close_connections()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """End every connection, and refuse others during the block."""
        self.is_cut = True
        self._close_connections()
        try:
            yield
        finally:
            self.is_cut = False

    def _close_connections(self) -> None:
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
            self._connections.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # the listener was closed
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.server_port))
            with self._lock:
                self._connections += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_forward, args=(source, target), daemon=True).start()


def _forward(source: socket.socket, target: socket.socket) -> None:
    """Send everything that arrives on one socket to the other, until one of them is closed."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
