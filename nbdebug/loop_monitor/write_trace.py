"""The user's lines that write to tensors in place, recorded between two events of a loop."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.source.location import SourceLine, get_line_from_frame
from nbdebug.tensors.pytree import tree_tensors

_WRITING_NAMES = {"__set__", "__setitem__"}
_IN_PLACE_OPERATORS = {"__iadd__", "__isub__", "__imul__", "__itruediv__"}


class WriteTrace(TorchFunctionMode):
    """Records the user's line of the first torch call that writes to the memory of some tensors, once.

    It opens only while no other mode is active, so that it is never removed in place of one of the user's. If one was
    entered since and is still active, it stays, without recording, until the next ``close``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[int] = set()
        self.line: SourceLine | None = None
        self.is_open = self.was_used = False

    def open(self, tensors: Iterable[Tensor]) -> None:
        """Start to record writes to some tensors, unless that was done before."""
        if not self.was_used and not torch._C._len_torch_function_stack():
            self.addresses = {tensor.data_ptr() for tensor in tensors if tensor.numel()}
            self.was_used = self.is_open = True
            self.__enter__()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Stop to record."""
        self.addresses = set()
        depth = torch._C._len_torch_function_stack()
        if self.is_open and depth and torch._C._get_function_stack_at(depth - 1) is self:
            self.is_open = False
            self.__exit__(None, None, None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.line is None and self.addresses and args and _writes_to_first_argument(func):
            written = tree_tensors(args[0])
            if any(tensor.numel() and tensor.data_ptr() in self.addresses for tensor in written):
                self.line = get_line_from_frame(sys._getframe(1))
        return func(*args, **(kwargs or {}))


def _writes_to_first_argument(function: Any) -> bool:
    """Check whether a torch function changes its first argument in place, by torch's naming."""
    name = str(getattr(function, "__name__", ""))
    is_in_place = name.endswith("_") and not name.endswith("__") and not name.startswith("requires_grad")
    return is_in_place or name in _WRITING_NAMES or name in _IN_PLACE_OPERATORS
