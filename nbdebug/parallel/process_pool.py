"""A pool of processes on this machine, each with a connection of its own, so that each death is known.

``concurrent.futures`` gives up all running tasks when a worker dies; here only the task of that worker is run again.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Any

import torch

from nbdebug.exceptions import SetupError
from nbdebug.parallel.transfer import decode, encode, run_task
from nbdebug.parallel.worker_settings import adopt_settings, read_settings
from nbdebug.preserve.block import defer_interrupts

_POLL_SECONDS = 0.1
_MAX_DEATHS = 3  # of the workers of one item


class ProcessPool:
    """Workers that are forked on Linux, so that they share the memory of this process and nothing is copied to them.

    CUDA cannot be used in a forked process once it is initialized. There, and on other systems, workers are started
    from the beginning by loky, which does not import the user's script again, and receive the task by cloudpickle.
    """

    def __init__(self, task: Callable[[Any], Any], count: int) -> None:
        self._is_forked = can_fork()
        self._task = task if self._is_forked else encode(task, "the task")
        self._settings = read_settings()
        self._count = count
        self._workers: list[Worker] = []

    def run(
        self, items: Sequence[Any], on_result: Callable[[int, Any], object], should_stop: Callable[[], bool]
    ) -> None:
        """Run the task on each item, as ``Pool`` describes."""
        waiting = deque(enumerate(encode(item, f"item {number}") for number, item in enumerate(items)))
        deaths = Counter[int]()
        try:
            while (waiting or self._busy) and not should_stop():
                with defer_interrupts():  # no worker and no result is lost by an interrupt between two lines
                    self._assign(waiting)
                connection.wait([worker.connection for worker in self._busy], _POLL_SECONDS)
                with defer_interrupts():
                    for worker in self._busy:
                        self._collect(worker, waiting, deaths, on_result)
        finally:
            for worker in self._busy:
                self._finish(worker, on_result)

    @property
    def _busy(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.item is not None]

    def _assign(self, waiting: deque[tuple[int, bytes]]) -> None:
        """Give each idle worker an item, and start workers while there are items."""
        while waiting:
            idle = next((worker for worker in self._workers if worker.item is None), None)
            if idle is None:
                if len(self._workers) >= self._count:
                    return
                idle = Worker(self._is_forked, self._task, self._settings)
                self._workers.append(idle)
            try:
                idle.assign(*waiting[0])
            except OSError:  # it died while it was idle
                self._remove(idle)
            else:
                waiting.popleft()

    def _collect(
        self,
        worker: Worker,
        waiting: deque[tuple[int, bytes]],
        deaths: Counter[int],
        on_result: Callable[[int, Any], object],
    ) -> None:
        """Deliver the result of a worker, or run its item again if it has died."""
        assert worker.item is not None
        number, item = worker.item
        try:
            data = worker.receive()
        except (EOFError, OSError):
            self._remove(worker)
            deaths[number] += 1
            if deaths[number] >= _MAX_DEATHS:
                raise SetupError(
                    f"a worker died {_MAX_DEATHS} times in the same task (exit code {worker.process.exitcode}); "
                    "expected a result. Pass fewer workers if memory is short."
                ) from None
            waiting.appendleft((number, item))
            return
        if data is not None:
            on_result(number, decode(data).unwrap())

    def _finish(self, worker: Worker, on_result: Callable[[int, Any], object]) -> None:
        """Stop a worker in the middle of an item; a result that is ready is delivered."""
        assert worker.item is not None
        number = worker.item[0]
        try:
            data = worker.receive()
        except (EOFError, OSError):
            data = None
        self._remove(worker)
        if data is not None and (outcome := decode(data)).error is None:
            on_result(number, outcome.value)

    def _remove(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.kill()

    def close(self) -> None:
        """End all workers."""
        while self._workers:
            self._workers.pop().kill()


class Worker:
    """A process, and the item on which it works."""

    def __init__(self, is_forked: bool, task: Any, settings: Mapping[str, Any]) -> None:
        self.item: tuple[int, bytes] | None = None
        context = _get_context(is_forked)
        self.connection, end = context.Pipe()
        other_end = self.connection if is_forked else None
        with warnings.catch_warnings():
            # A forked worker uses no lock of another thread: like a worker of a DataLoader, it has one thread of torch.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            self.process = context.Process(target=_serve, args=(task, settings, end, other_end))
            self.process.start()
            end.close()

    def assign(self, number: int, item: bytes) -> None:
        """Send an item to an idle worker; raises OSError if it has died."""
        self.connection.send_bytes(item)
        self.item = number, item

    def receive(self) -> bytes | None:
        """Return the encoded outcome if it is ready, else None; raises EOFError or OSError if the worker has died."""
        is_alive = self.process.is_alive()  # asked first, since a worker may answer and die between the two
        if not self.connection.poll():
            if not is_alive:
                raise EOFError
            return None
        data: bytes = self.connection.recv_bytes()
        self.item = None
        return data

    def kill(self) -> None:
        """End the process at once; those of loky have no method for it."""
        if self.process.is_alive():
            os.kill(self.process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self.process.join()
        self.connection.close()


def can_fork() -> bool:
    """Check whether a worker may be forked from this process."""
    return sys.platform == "linux" and not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]


def _get_context(is_forked: bool) -> Any:
    if is_forked:
        return get_context("fork")
    from joblib.externals.loky.backend import get_context as get_loky_context

    return get_loky_context("loky")


def _serve(task: Any, settings: Mapping[str, Any], own_end: Connection, other_end: Connection | None) -> None:
    """Run the task on each item that arrives, until the parent process closes the connection or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if other_end is not None:  # the copy of a forked process, which would keep the connection open
        other_end.close()
    adopt_settings(settings)
    if isinstance(task, bytes):
        task = decode(task)
    try:
        while True:
            own_end.send_bytes(run_task(task, decode(own_end.recv_bytes())))
    except (EOFError, OSError):
        return
