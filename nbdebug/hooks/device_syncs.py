"""Hooks on the calls of a running loop that wait for a device to copy a value to the CPU."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from torch import Tensor

from nbdebug.source.location import is_user_code

_SYNCHRONIZING_METHODS = ("item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__")
SyncCall = tuple[FrameType, float]


@contextmanager
def observe_device_syncs(device: str, on_sync: Callable[[SyncCall], None]) -> Iterator[None]:
    """Call ``on_sync`` with (frame, seconds) for each such call from the user's own lines within the block.

    ``device`` is the type of the devices to observe. Calls from libraries and the debugger are ignored.
    """
    with ExitStack() as undo:
        for name in _SYNCHRONIZING_METHODS:
            undo.callback(_restore_method, name, vars(Tensor).get(name))
            setattr(Tensor, name, _observed_method(name, device, on_sync))
        yield


def _observed_method(name: str, device: str, on_sync: Callable[[SyncCall], None]) -> Callable[..., Any]:
    """Return a method that reports its calls."""
    original = getattr(Tensor, name)

    @functools.wraps(original)
    def observed_call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.device.type != device:
            return original(self, *args, **kwargs)
        start = time.perf_counter()
        result = original(self, *args, **kwargs)
        frame = sys._getframe(1)
        file = frame.f_code.co_filename
        if is_user_code(file):
            on_sync((frame, time.perf_counter() - start))
        return result

    return observed_call


def _restore_method(name: str, own_method: Any) -> None:
    """Restore a method: the class's own, or the inherited one."""
    if own_method is None:
        delattr(Tensor, name)
    else:
        setattr(Tensor, name, own_method)
