"""Where the user turned gradients off: the line of the block or of the decorator."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from nbdebug.graph.source import Line, from_frame


def turned_off(func: Callable[..., Any], args: tuple[Any, ...], frame: FrameType | None) -> Line | None:
    """The user's line that turns gradients off with a call of torch that is about to run; None for any other."""
    if getattr(func, "__name__", "") != "_set_grad_enabled" or args != (False,) or not torch.is_grad_enabled():
        return None
    while frame is not None and frame.f_globals.get("__name__", "").startswith("torch."):
        if frame.f_code.co_name == "__exit__":
            return None
        decorated = getattr(frame.f_locals.get("func"), "__code__", None)
        if frame.f_code.co_name == "decorate_context" and isinstance(decorated, CodeType):
            return Line(decorated.co_filename, decorated.co_firstlineno, decorated.co_name)
        frame = frame.f_back
    return from_frame(frame)
