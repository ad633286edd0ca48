"""The calls of a running loop that wait for a device to bring a value to the processor."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from torch import Tensor

from nbdebug.graph.source import is_library, is_machinery

METHODS = ("item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__")
Sync = tuple[FrameType, float]


@contextmanager
def syncs(device: str, heard: Callable[[Sync], None]) -> Iterator[None]:
    """A block in which each such call from the user's own lines is told of, as (its frame, seconds it took).

    ``device`` is the kind of device whose tensors are meant. What libraries and the debugger fetch is not heard.
    """
    with ExitStack() as undo:
        for name in METHODS:
            undo.callback(put_back, name, vars(Tensor).get(name))
            setattr(Tensor, name, listening(name, device, heard))
        yield


def listening(name: str, device: str, heard: Callable[[Sync], None]) -> Callable[..., Any]:
    """A method that tells of its calls."""
    original = getattr(Tensor, name)

    @functools.wraps(original)
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.device.type != device:
            return original(self, *args, **kwargs)
        begun = time.perf_counter()
        result = original(self, *args, **kwargs)
        frame = sys._getframe(1)
        file = frame.f_code.co_filename
        if not is_library(file) and not is_machinery(file):
            heard((frame, time.perf_counter() - begun))
        return result

    return call


def put_back(name: str, own: Any) -> None:
    """The method as it was: one of the class's own, or the one it inherits."""
    if own is None:
        delattr(Tensor, name)
    else:
        setattr(Tensor, name, own)
