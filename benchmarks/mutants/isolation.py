"""Run a function in a forked process with a time limit."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from typing import Any

import torch


def run_isolated(function: Callable[..., dict[str, Any]], *arguments: Any, seconds: float) -> dict[str, Any]:
    """Return the result of a function in a forked process; ``{"failure": ...}`` if it raises or takes too long."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        output = StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            try:
                result = function(*arguments)
            except Exception:
                result = {"failure": traceback.format_exc()[-2500:]}
        sender.send(result)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    sender.close()
    try:
        return dict(receiver.recv()) if receiver.poll(seconds) else {"failure": f"took longer than {seconds:.0f} s"}
    except EOFError:
        return {"failure": "the process was killed"}
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid or os.getpid(), 9)
        process.join()
