"""A pool of Ray, on this machine or on the cluster to which the user has connected."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from nbdebug.exceptions import SetupError
from nbdebug.parallel.transfer import Outcome, decode, encode, run_task
from nbdebug.parallel.worker_settings import adopt_settings, read_settings

_POLL_SECONDS = 0.1
_MAX_RETRIES = 2  # of one item after the deaths of its workers


@contextmanager
def open_ray_pool(task: Callable[[Any], Any], count: int) -> Iterator[_RayPool]:
    """Provide a pool of Ray; raise SetupError if it is not installed, or if the task cannot be sent."""
    try:
        import ray
    except ImportError:
        raise SetupError('ray is not installed; expected it for backend="ray". Run pip install ray.') from None
    encoded = encode(task, "the task")
    with _connection(ray, count):
        yield _RayPool(ray, encoded, count)


@contextmanager
def _connection(ray: Any, count: int) -> Iterator[None]:
    """Use the connection that the user has opened, or start Ray on this machine for the block."""
    if ray.is_initialized():
        yield
        return
    with _restored_process():
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        try:
            _start(ray, count)
            yield
        finally:
            ray.shutdown()


def _start(ray: Any, count: int) -> None:
    """Start Ray on this machine; raises SetupError if it does not answer within the 30 seconds that it allows."""
    options = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    try:
        with _loopback_only():
            ray.init(address="local", num_cpus=count, **options)
    except Exception as error:
        raise SetupError(
            f'Ray did not start ({error}); expected a machine with free processors. Use backend="process", or connect '
            "by ray.init() before the call."
        ) from error


@contextmanager
def _restored_process() -> Iterator[None]:
    """Restore the environment and the handler of SIGTERM, which Ray replaces."""
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Let all servers of Ray listen on the loopback address only, as they do by default on Windows and macOS.

    Ray has no option for that: its processes read the environment, and this one a constant.
    """
    from ray._private import ray_constants

    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    with patch.object(ray_constants, "ENABLE_RAY_CLUSTER", False):
        yield


class _RayPool:
    """At most ``count`` tasks of Ray at a time, which runs a task again if its worker dies."""

    def __init__(self, ray: Any, task: bytes, count: int) -> None:
        self._ray, self._count = ray, count
        self._task, self._settings = ray.put(task), read_settings()
        self._remote = ray.remote(num_cpus=1, max_retries=_MAX_RETRIES, retry_exceptions=False)(_run)

    def run(
        self, items: Sequence[Any], on_result: Callable[[int, Any], object], should_stop: Callable[[], bool]
    ) -> None:
        """Run the task on each item, as ``Pool`` describes."""
        waiting = deque(enumerate(encode(item, f"item {number}") for number, item in enumerate(items)))
        running: dict[Any, int] = {}
        try:
            while (waiting or running) and not should_stop():
                while waiting and len(running) < self._count:
                    number, item = waiting.popleft()
                    running[self._remote.remote(self._task, item, self._settings)] = number
                for number, outcome in self._ready(running, _POLL_SECONDS):
                    on_result(number, outcome.unwrap())
        finally:
            for number, outcome in self._ready(running, 0.0):
                if outcome.error is None:
                    on_result(number, outcome.value)
            for reference in running:
                self._ray.cancel(reference, force=True)

    def _ready(self, running: dict[Any, int], seconds: float) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes that are ready within some seconds, and remove them from those that run."""
        if not running:
            return
        for reference in self._ray.wait([*running], num_returns=len(running), timeout=seconds)[0]:
            number = running.pop(reference)
            try:
                data = self._ray.get(reference)
            except self._ray.exceptions.WorkerCrashedError:
                raise SetupError(
                    f"a worker died {_MAX_RETRIES + 1} times in the same task; expected a result. Pass fewer workers "
                    "if memory is short."
                ) from None
            yield number, decode(data)


def _run(task: bytes, item: bytes, settings: Mapping[str, Any]) -> bytes:
    """Run the task on one item in a worker of Ray."""
    adopt_settings(settings)
    return run_task(decode(task), decode(item))
