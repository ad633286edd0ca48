"""Tests that a process which is killed anywhere within a write leaves the former file whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdebug.atomic_files import write_atomically

FORMER, NEW = b"former" * 1000, b"new" * 5000


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_open() -> None:
    Path.open = die  # type: ignore[method-assign]


def die_within_content() -> None:
    original = Path.open

    def open_half_file(*args: Any, **kwargs: Any) -> Any:
        file: Any = original(*args, **kwargs)
        file.write(NEW[: len(NEW) // 2])
        file.flush()
        die()

    Path.open = open_half_file  # type: ignore[method-assign]


def die_before_flush() -> None:
    os.fsync = die  # type: ignore[assignment]


def die_before_rename() -> None:
    Path.replace = die  # type: ignore[method-assign]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("plan", [die_at_open, die_within_content, die_before_flush, die_before_rename])
def test_killed_writer_leaves_the_former_file(plan: Callable[[], None], tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, FORMER)
    process = os.fork()
    if process == 0:
        try:
            plan()
            write_atomically(path, NEW)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    assert path.read_bytes() == FORMER
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
