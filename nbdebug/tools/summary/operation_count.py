"""Multiply-adds of the operations of a forward pass, by the formulas of ``torch.utils.flop_counter``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from nbdebug.exceptions import cut_traceback


class OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls ``add`` with the multiply-adds of each matrix product, convolution and attention in this block."""

    def __init__(self, add: Callable[[int], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        from torch.utils.flop_counter import flop_registry

        self._add, self._formulas = add, flop_registry

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        """Leave, and take the frames of this class out of a traceback, which ends in the line of the user."""
        cut_traceback(traceback, OperationCounter.__torch_dispatch__.__code__)
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        formula = self._formulas.get(func._overloadpacket)
        if formula is not None:
            with suppress(Exception):  # a count must not end the forward pass
                self._add(int(formula(*args, **(kwargs or {}), out_val=output)) // 2)
        return output
