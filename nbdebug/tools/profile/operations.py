"""Operations of a training step by module and by the user's line, and the measured ceilings of the device."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from nbdebug.source.location import SourceLine, is_debugger_code, is_user_code
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.profile.clocks import host_seconds
from nbdebug.tools.profile.time_profile import Roofline

_MATRIX_SIZE, _COPIED_BYTES = 768, 1 << 26
_ROUNDS = 5
_MAX_DEPTH = 60  # frames of a stack


class OperationTotals(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts floating-point operations, bytes read and written, and calls, by module and by line of the user.

    Views cost nothing and are not counted. ``open_modules`` is the path of modules that run; the operations of a
    backward pass belong to no module and no line.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.open_modules: list[str] = []
        self.in_backward = False
        self.in_loss, self.loss_calls = False, 0
        self.flops: dict[str, int] = defaultdict(int)
        self.moved_bytes: dict[str, int] = defaultdict(int)
        self.calls: dict[str, int] = defaultdict(int)
        self.line_costs: dict[SourceLine, list[int]] = defaultdict(lambda: [0, 0])  # flops, bytes of others
        self.line_operations: dict[SourceLine, Counter[Any]] = defaultdict(Counter)  # calls by operation
        self.total = [0, 0, 0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        outputs = func(*args, **(kwargs or {}))
        if not _is_view(func):
            self.count(func, args, kwargs or {}, outputs)
        return outputs

    def count(self, func: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        """Count one operation."""
        formula = flop_registry.get(func._overloadpacket)
        flops = int(formula(*args, **kwargs, out_val=outputs)) if formula is not None else 0
        moved = sum(t.numel() * t.element_size() for t in (*tree_tensors((args, kwargs)), *tree_tensors(outputs)))
        for i, amount in enumerate((flops, moved, 1)):
            self.total[i] += amount
        if self.in_backward:
            return
        self.loss_calls += self.in_loss
        if self.open_modules:
            name = self.open_modules[-1]
            self.flops[name] += flops
            self.moved_bytes[name] += moved
            self.calls[name] += 1
        if (line := get_user_line(sys._getframe(2))) is not None:
            costs = self.line_costs[line]
            # A product on whole tensors reads the weights once, not for each of its parts.
            for i, amount in enumerate((flops, 0 if flops else moved)):
                costs[i] += amount
            self.line_operations[line][func] += 1

    def whole_calls(self, line: SourceLine) -> int:
        """Return the calls that one pass of the loop around a line makes, which is what it makes on whole tensors.

        The rarest operation that is called more than once tells how often the loop runs.
        """
        calls = self.line_operations[line].values()
        passes = min((count for count in calls if count > 1), default=1)
        return sum(max(count // passes, 1) for count in calls)


def _is_view(func: Any) -> bool:
    """Check whether an operation returns a view of its input."""
    returns = func._schema.returns
    return bool(returns) and all(item.alias_info is not None and not item.alias_info.is_write for item in returns)


def get_user_line(frame: Any) -> SourceLine | None:
    """Return the innermost line of the user on a stack."""
    for _ in range(_MAX_DEPTH):
        if frame is None:
            return None
        file = frame.f_code.co_filename
        if is_user_code(file):
            return SourceLine(file, frame.f_lineno, frame.f_code.co_name)
        if is_debugger_code(file) and frame.f_code.co_name != "__torch_dispatch__":
            return None
        frame = frame.f_back
    return None


def measure_roofline(device: torch.device, dtype: torch.dtype) -> Roofline:
    """Return the highest rates of a matrix product and of a copy on a device; the best of some rounds.

    Williams, Waterman and Patterson 2009, Roofline, doi:10.1145/1498765.1498785.
    """
    left = torch.ones(_MATRIX_SIZE, _MATRIX_SIZE, device=device, dtype=dtype)
    source = torch.empty(_COPIED_BYTES, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    product: Tensor = torch.empty_like(left)
    with torch.no_grad():
        product_seconds = _best_seconds(lambda: torch.mm(left, left, out=product), device)
        copy_seconds = _best_seconds(lambda: target.copy_(source), device)
    return Roofline(2 * _MATRIX_SIZE**3 / product_seconds, 2 * _COPIED_BYTES / copy_seconds)


def _best_seconds(operation: Callable[[], object], device: torch.device) -> float:
    operation()
    seconds = []
    for _ in range(_ROUNDS):
        synchronize(device)
        started = host_seconds()
        operation()
        synchronize(device)
        seconds.append(host_seconds() - started)
    return min(seconds)


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all queued operations."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
