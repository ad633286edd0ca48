"""The user's torch calls with some tensors, traced between two events of a loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nbdebug.hooks import training_events
from nbdebug.source.location import SourceLine, get_running_line, is_debugger_code, is_library_code
from nbdebug.tensors.pytree import tree_tensors

_WRITING_NAMES = {"__set__", "__setitem__"}
_IN_PLACE_OPERATORS = {"__iadd__", "__isub__", "__imul__", "__itruediv__"}


class LoopMode(TorchFunctionMode):
    """A mode that is active in the user's loop between two events.

    It is entered only while no other mode is active, so that it is never removed in place of one of the user's. If one
    was entered since and is still active, this one stays until the next call of ``leave``. A mode is not on the stack
    while a call that it traces runs, so the open ones are counted.
    """

    is_open = False
    open_count: ClassVar[int] = 0

    def enter(self) -> bool:
        """Enter the mode, and return whether it is active; it is not if it was open or another mode is active."""
        if LoopMode.open_count or torch._C._len_torch_function_stack():
            return False
        self.is_open = True
        LoopMode.open_count += 1
        self.__enter__()  # type: ignore[no-untyped-call]
        return True

    def leave(self) -> None:
        """Leave the mode, if it is the innermost one."""
        depth = torch._C._len_torch_function_stack()
        if self.is_open and depth and torch._C._get_function_stack_at(depth - 1) is self:
            self.is_open = False
            LoopMode.open_count -= 1
            self.__exit__(None, None, None)


class CallTrace(LoopMode):
    """Passes each torch call of the user's between ``open`` and ``close`` to ``record``."""

    max_uses = 1

    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[int] = set()
        self.uses = 0
        self.error: Exception | None = None

    def open(self, tensors: Iterable[Tensor]) -> None:
        """Start to record calls with some tensors, unless that was done often enough.

        Raises the exception of a call that could not be recorded.
        """
        if self.error is not None:
            raise self.error
        if self.uses < self.max_uses and self.enter():
            self.addresses = {tensor.data_ptr() for tensor in tensors if is_plain_tensor(tensor) and tensor.numel()}
            self.uses += 1

    def close(self) -> None:
        """Stop to record."""
        self.addresses = set()
        self.leave()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        recorded = self.recorded_arguments(args, kwargs or {}) if self.addresses else ()
        if recorded and (line := calling_line(sys._getframe(1))):
            self.attempt(self.record, func, recorded, line)
        return func(*args, **(kwargs or {}))

    def recorded_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a call that ``record`` gets: those without a name."""
        return args

    def attempt(self, method: Callable[..., None], *args: Any) -> None:
        """Call a method that records; the next ``open`` raises its exception, which must not reach the user's loop."""
        try:
            method(*args)
        except Exception as error:
            self.error, self.addresses = error, set()
            self.discard()

    def discard(self) -> None:
        """Forget what was recorded before an exception, of which a part tells nothing."""

    def record(self, function: Any, args: tuple[Any, ...], line: SourceLine) -> None:
        """Record a call that is about to run."""

    def shares_memory(self, value: Any) -> bool:
        """Check whether any tensor of an argument starts where one of the traced tensors does."""
        tensors = filter(is_plain_tensor, tree_tensors(value))
        return any(tensor.numel() and tensor.data_ptr() in self.addresses for tensor in tensors)


class WriteTrace(CallTrace):
    """Records the user's line of the first torch call that writes to the memory of some tensors, once."""

    def __init__(self) -> None:
        super().__init__()
        self.line: SourceLine | None = None

    def recorded_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments without a name, or else the first one: ``torch.nn.init`` passes all of them by name."""
        return args or tuple(kwargs.values())[:1]

    def record(self, function: Any, args: tuple[Any, ...], line: SourceLine) -> None:
        """Record the line of the first write."""
        if self.line is None and writes_to_first_argument(function) and self.shares_memory(args[0]):
            self.line = line


def calling_line(frame: FrameType | None) -> SourceLine | None:
    """Return the user's line of a torch call, also through an observed method; None for calls of the debugger."""
    while frame is not None and (
        is_library_code(frame.f_code.co_filename) or frame.f_code.co_filename == training_events.__file__
    ):
        frame = frame.f_back
    if frame is None or is_debugger_code(frame.f_code.co_filename):
        return None
    return get_running_line(frame)


def is_plain_tensor(value: Any) -> TypeGuard[Tensor]:
    """Check whether a value is a tensor with an address, unlike sparse ones and those that compilers trace."""
    return type(value) in (Tensor, nn.Parameter) and torch._C._has_storage(value)


def writes_to_first_argument(function: Any) -> bool:
    """Check whether a torch function changes its first argument in place, by torch's naming."""
    name = str(getattr(function, "__name__", ""))
    is_in_place = name.endswith("_") and not name.endswith("__") and not name.startswith("requires_grad")
    return is_in_place or name in _WRITING_NAMES or name in _IN_PLACE_OPERATORS
