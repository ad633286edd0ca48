"""Test of the pool of Ray. It takes ten seconds of processor time to start, so one test covers all."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from nbdebug.exceptions import SetupError
from nbdebug.parallel import Workers, open_pool
from tests.parallel.test_process_pool import collect, die_at_first

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")


def listening_and_remote_addresses() -> set[str]:
    """Return the addresses at which processes of this one listen, and those to which they are connected."""
    me, connections = psutil.Process(), []
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has ended since
            connections += process.net_connections("inet")
    listening = {item.laddr.ip for item in connections if item.status == psutil.CONN_LISTEN}
    return listening | {item.raddr.ip for item in connections if item.raddr}


def test_results_come_once_and_this_process_is_as_before(tmp_path: Path) -> None:
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    addresses: set[str] = set()

    def note_addresses() -> bool:
        addresses.update(listening_and_remote_addresses())
        return False

    offset = 0.5

    def square(item: int) -> Any:
        return die_at_first(tmp_path, 1, item) + offset

    with ExitStack() as stack:
        try:
            pool = stack.enter_context(open_pool(square, Workers("ray", 2)))
        except SetupError as error:
            pytest.skip(str(error))  # a machine without a free processor: Ray waits 15 seconds for its agents
        assert collect(pool, [0, 1, 2], note_addresses) == {0: 0.5, 1: 10.5, 2: 20.5}
    assert addresses
    assert {address.removeprefix("::ffff:") for address in addresses} <= {"127.0.0.1", "::1"}
    assert not ray.is_initialized()
    assert dict(os.environ) == environment
    assert signal.getsignal(signal.SIGTERM) == handler
