"""Tests of the pool of processes: each item gives one result, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from nbdebug.exceptions import SetupError
from nbdebug.parallel import Pool, Workers, choose_workers, open_pool
from nbdebug.parallel import process_pool as process_pool_module
from nbdebug.parallel.transfer import RemoteTraceback


def collect(pool: Pool, items: list[Any], should_stop: Callable[[], bool] = lambda: False) -> dict[int, Any]:
    results: dict[int, Any] = {}

    def keep(number: int, value: Any) -> None:
        assert number not in results
        results[number] = value

    pool.run(items, keep, should_stop)
    return results


@pytest.fixture(params=["forked", "started by loky"])
def pool_of_squares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    if request.param != "forked":
        monkeypatch.setattr(process_pool_module, "can_fork", lambda: False)
    elif not process_pool_module.can_fork():
        pytest.skip("processes cannot be forked here")
    offset = 0.5  # of a closure, which plain pickle refuses

    def square(item: int) -> tuple[float, int, int, torch.dtype]:
        return item**2 + offset, os.getpid(), torch.get_num_threads(), torch.get_default_dtype()

    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with open_pool(square, Workers("process", 2)) as pool:
            yield pool
    finally:
        torch.set_default_dtype(previous)


def test_results_come_once_from_two_processes_with_the_settings_of_this_one(pool_of_squares: Pool) -> None:
    results = collect(pool_of_squares, list(range(6)))
    assert {number: value[0] for number, value in results.items()} == {n: n**2 + 0.5 for n in range(6)}
    assert os.getpid() not in {value[1] for value in results.values()}
    assert {value[2:] for value in results.values()} == {(1, torch.float64)}
    assert set(collect(pool_of_squares, [7])) == {0}  # the same workers take more items


def die_at_first(folder: Path, times: int, item: int) -> int:
    """Kill the own process in the middle of item 1, the first ``times`` times."""
    attempts = folder / f"{item}"
    attempts.write_text(attempts.read_text() + "x" if attempts.exists() else "x")
    if item == 1 and len(attempts.read_text()) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return item * 10


def test_item_of_a_killed_worker_is_run_again_and_counts_once(tmp_path: Path) -> None:
    with open_pool(partial(die_at_first, tmp_path, 1), Workers("process", 2)) as pool:
        assert collect(pool, [0, 1, 2, 3]) == {0: 0, 1: 10, 2: 20, 3: 30}
    assert {path.name: len(path.read_text()) for path in tmp_path.iterdir()} == {"0": 1, "1": 2, "2": 1, "3": 1}


def test_item_that_kills_every_worker_is_given_up(tmp_path: Path) -> None:
    with (
        open_pool(partial(die_at_first, tmp_path, 99), Workers("process", 1)) as pool,
        pytest.raises(SetupError, match=r"a worker died 3 times in the same task \(exit code -9\)"),
    ):
        collect(pool, [0, 1, 2])


def raise_at(number: int, item: int) -> int:
    if item == number:
        raise ZeroDivisionError("of the task")
    return item


def test_exception_of_a_task_is_raised_with_its_traceback() -> None:
    with open_pool(partial(raise_at, 1), Workers("process", 2)) as pool:
        with pytest.raises(ZeroDivisionError, match="of the task") as raised:
            collect(pool, [0, 1, 2])
        assert isinstance(raised.value.__cause__, RemoteTraceback)
        assert "in raise_at" in str(raised.value.__cause__)


def sleep_except(item: float) -> tuple[float, int]:
    time.sleep(item)
    return item, os.getpid()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_interrupt_ends_the_workers_and_keeps_results() -> None:
    results: dict[int, Any] = {}
    timer = threading.Timer(0.6, signal.raise_signal, [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt), open_pool(sleep_except, Workers("process", 2)) as pool:
        timer.start()
        pool.run([0.0, 60.0, 0.0, 60.0], results.__setitem__, lambda: False)
    assert [results[number][0] for number in sorted(results)] == [0.0, 0.0]
    assert not any(is_running(process) for _, process in results.values())


def test_stop_ends_the_items_that_run() -> None:
    started = time.monotonic()
    with open_pool(sleep_except, Workers("process", 2)) as pool:
        assert set(collect(pool, [60.0, 60.0], lambda: time.monotonic() > started + 0.3)) == set()
        assert set(collect(pool, [0.0])) == {0}
    assert time.monotonic() - started < 30


def test_what_cannot_be_sent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool_module, "can_fork", lambda: False)
    settings = {"data": {"lock": threading.Lock()}}
    with (
        pytest.raises(SetupError, match=r"variable settings\['data'\]\['lock'\] is a lock that cannot be sent"),
        open_pool(lambda item: settings, Workers("process", 1)),
    ):
        pass


@pytest.mark.parametrize(
    ("backend", "workers", "message"),
    [("threads", None, "backend is 'threads'; expected one of process, ray"), (None, 0, "workers is 0; expected")],
)
def test_options_are_checked(backend: Any, workers: Any, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        choose_workers(backend, workers)


def test_options() -> None:
    assert choose_workers(None, None) is None
    assert choose_workers(None, 3) == Workers("process", 3)
    every = choose_workers("process", None)
    assert every is not None
    assert every.count >= 1
