"""State that a loss, or another callable object, keeps from one call to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
from torch import Tensor, nn

_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, partial, type)
_VALUES = (bool, int, float, complex, str, bytes, Tensor, np.ndarray, np.generic, nn.Module)
_MAX_DEPTH, _MAX_ITEMS = 4, 10_000


def stateful_callable(item: Any) -> Any:
    """Return a callable whose state a call can change: a module, or an object with plain attributes; None for others.

    Attributes are plain if they are numbers, texts, tensors, arrays, modules, or containers of these. An object that
    refers to more, such as a file or the user's trainer, is left out, since it may be impossible to restore.
    """
    if isinstance(item, nn.Module):
        return item
    if item is None or isinstance(item, _FUNCTIONS) or not getattr(item, "__dict__", None):
        return None
    return item if all(_is_plain(value) for value in vars(item).values()) else None


def _is_plain(value: Any, depth: int = 0) -> bool:
    if value is None or isinstance(value, _VALUES):
        return True
    if not isinstance(value, (list, tuple, set, frozenset, deque, Mapping)) or depth > _MAX_DEPTH:
        return False
    items = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
    return len(items) <= _MAX_ITEMS and all(_is_plain(item, depth + 1) for item in items)
