"""Ranks of one process group on this machine, which meet in a file and communicate over the loopback interface."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from multiprocessing import connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from torch import distributed

from nbdebug.exceptions import SetupError
from nbdebug.formatting import join_names
from nbdebug.parallel.process_pool import Worker, can_fork
from nbdebug.parallel.transfer import Outcome, decode, encode
from nbdebug.parallel.worker_settings import read_settings

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 1.0  # in which a death is seen that made another rank fail
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def run_ranks(task: Callable[[int], Any], count: int, seconds: float, on_wait: Callable[[], None]) -> list[Any]:
    """Run ``task(rank)`` on each rank of a gloo group in processes of their own, and return their results.

    ``on_wait`` is called ten times a second while the ranks run, and may raise to end them. An exception of a rank is
    raised. Raises SetupError if a rank dies, if not all have returned after ``seconds``, and if this process belongs to
    a group already. All processes end with the call.
    """
    if not distributed.is_available():
        raise SetupError("torch has no distributed package; expected one with gloo. Install such a build of torch.")
    if distributed.is_initialized():
        raise SetupError(
            "this process belongs to a process group; expected none, since ranks are started for the comparison. "
            "Call compare() in a process without one."
        )
    is_forked, settings = can_fork(), read_settings()
    with TemporaryDirectory(prefix="nbdebug-") as folder:
        run = partial(_run_rank, task, count, str(Path(folder, "store")), seconds)
        sent = run if is_forked else encode(run, "the setup")
        workers = [Worker(is_forked, sent, settings) for _ in range(count)]
        try:
            for rank, worker in enumerate(workers):
                worker.assign(rank, encode(rank, "the rank"))
            return _collect(workers, seconds, on_wait)
        finally:
            for worker in workers:
                worker.kill()


def _run_rank(task: Callable[[int], Any], count: int, store: str, seconds: float, rank: int) -> Any:
    """Run the task in a process group whose sockets no other machine reaches."""
    if (interface := _LOOPBACK.get(sys.platform)) is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = interface
    distributed.init_process_group(
        "gloo",
        store=distributed.FileStore(store, count),  # type: ignore[attr-defined]
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=seconds),
    )
    try:
        return task(rank)
    finally:
        distributed.destroy_process_group()


def _collect(workers: Sequence[Worker], seconds: float, on_wait: Callable[[], None]) -> list[Any]:
    """Return the results of all ranks in their order."""
    results: dict[int, Any] = {}
    deadline = time.monotonic() + seconds
    while len(results) < len(workers):
        waiting = [rank for rank in range(len(workers)) if rank not in results]
        if time.monotonic() > deadline:
            names = join_names([f"rank {rank}" for rank in waiting])
            raise SetupError(
                f"{names} returned nothing within {seconds:g} s; expected all {len(workers)} ranks to finish. "
                "Make sure that all ranks run the same collective operations, or pass a larger timeout."
            )
        on_wait()
        connection.wait([workers[rank].connection for rank in waiting], _POLL_SECONDS)
        for rank in waiting:
            if (outcome := _receive(workers, rank)) is None:
                continue
            if outcome.error is not None:
                _raise_failure(workers, [other for other in waiting if other != rank], outcome)
            results[rank] = outcome.value
    return [results[rank] for rank in range(len(workers))]


def _receive(workers: Sequence[Worker], rank: int) -> Outcome | None:
    """Return the outcome of a rank, None if it is not ready; raise SetupError if the rank has died."""
    try:
        data = workers[rank].receive()
    except (EOFError, OSError):
        workers[rank].process.join(_GRACE_SECONDS)
        raise SetupError(
            f"rank {rank} of {len(workers)} died (exit code {workers[rank].process.exitcode}) before it returned its "
            "results; expected all ranks to finish. Code -9 is often a lack of memory: pass a smaller batch."
        ) from None
    return None if data is None else decode(data)


def _raise_failure(workers: Sequence[Worker], others: Sequence[int], outcome: Outcome) -> NoReturn:
    """Raise the exception of a rank, or the death of another one, which makes collective operations fail."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline and others:
        connection.wait([workers[rank].connection for rank in others], _POLL_SECONDS)
        others = [rank for rank in others if _receive(workers, rank) is None]
    outcome.unwrap()
    raise AssertionError("the outcome has no error")
