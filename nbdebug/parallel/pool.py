"""The workers that a tool is asked for, and the pool that runs its tasks in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from nbdebug.validation import check_whole_number, validate_choice

Backend = Literal["process", "ray"]
BACKENDS = ("process", "ray")
_MAX_WORKERS = 1024


@dataclass(frozen=True)
class Workers:
    """The number of workers, and what starts them."""

    backend: Backend
    count: int


class Pool(Protocol):
    """Workers that have received one task, which they run on items."""

    def run(
        self, items: Sequence[Any], on_result: Callable[[int, Any], object], should_stop: Callable[[], bool]
    ) -> None:
        """Run the task on each item; ``on_result`` receives the number of an item and its result, once for each.

        Results come in the order in which they are ready. Between them, ``should_stop`` is called several times per
        second; if it returns True, the workers are stopped. An item whose worker dies is run again. An exception of the
        task is raised, as is an interrupt; results that were ready before are delivered first.
        """


def choose_workers(backend: Backend | None, workers: int | None) -> Workers | None:
    """Return the workers of the options ``backend`` and ``workers``; None if tasks run in this process.

    With a backend alone, there is one worker for each processor. Raises SetupError for other values.
    """
    if backend is None and workers is None:
        return None
    if workers is not None:
        check_whole_number("workers", workers, 1, _MAX_WORKERS)
    validate_choice("backend", "process" if backend is None else backend, BACKENDS)
    return Workers(backend or "process", workers or _processor_count())


def _processor_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def open_pool(task: Callable[[Any], Any], workers: Workers) -> Iterator[Pool]:
    """Provide workers for a task, each with one torch thread and the settings of torch in this process.

    All workers end with the block. Raises SetupError if the task cannot be sent to them, or if Ray is not installed.
    """
    if workers.backend == "ray":
        from nbdebug.parallel.ray_pool import open_ray_pool

        with open_ray_pool(task, workers.count) as ray_pool:
            yield ray_pool
        return
    from nbdebug.parallel.process_pool import ProcessPool

    pool = ProcessPool(task, workers.count)
    try:
        yield pool
    finally:
        pool.close()
