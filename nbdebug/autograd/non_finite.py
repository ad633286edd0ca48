"""Find the operations that produce NaN or Inf from finite inputs."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nbdebug.autograd.patterns import VALUE_PRESERVING_NODES
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.finding import Location
from nbdebug.source.location import SourceLine, get_line_from_frame, get_location
from nbdebug.tensors.memory import memory_address
from nbdebug.tensors.pytree import tree_tensors

_LAYER_NODES = ("Addmm", "Mm", "Mv", "Bmm", "Baddbmm", "Convolution", "Linear")
_UNINITIALIZED_CALLS = ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")


@dataclass(frozen=True)
class NonFiniteOrigin:
    """One operation that produced NaN, or Inf from finite inputs.

    ``kind`` is "NaN" or "Inf"; ``input_min`` and ``input_max`` are the range of the finite inputs; ``rows`` are the
    affected rows. ``is_of_weights`` tells whether an input is what weights made, without a function that bounds it,
    ``has_infinite_input`` whether an input also contains infinities, which are no fault by themselves.
    """

    operation: str
    kind: str
    input_min: float
    input_max: float
    shape: tuple[int, ...]
    rows: tuple[int, ...]
    module: str | None
    line: SourceLine | None
    is_of_weights: bool = False
    has_infinite_input: bool = False

    @property
    def where(self) -> Location:
        """The location of this operation."""
        return get_location(self.line, self.module)


class NonFiniteRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Traces non-finite values to the operation that produced them, while active.

    An infinity that the user inserts, for example as a mask, counts only once an operation turns it into NaN.
    Non-finite values are tracked by memory address, so that views are included.
    """

    def __init__(self, stack: ModuleStack) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._stack = stack
        self.origins: list[NonFiniteOrigin] = []
        self._tainted: dict[int, NonFiniteOrigin | None] = {}

    def get_origin(self, tensor: Tensor) -> NonFiniteOrigin | None:
        """Return the operation that produced the non-finite values of a tensor; None if there is none in this run."""
        return self._tainted.get(memory_address(tensor)) or next(iter(self.origins), None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = tree_tensors((args, kwargs or {}))
        non_finite = [t for t in inputs if not is_finite(t)]
        had_nan = any(bool(t.isnan().any()) for t in non_finite)
        has_non_finite_input = bool(non_finite) or any(
            isinstance(value, float) and not math.isfinite(value) for value in args
        )
        earlier = next((value for t in non_finite if (value := self._tainted.get(memory_address(t)))), None)
        input_range, input_addresses = get_finite_range(inputs), {memory_address(t) for t in inputs}
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        for output in tree_tensors(result):
            if is_finite(output) or name in _UNINITIALIZED_CALLS:
                if memory_address(output) not in input_addresses:
                    self._tainted.pop(memory_address(output), None)
            elif earlier or had_nan or (has_non_finite_input and not bool(output.isnan().any())):
                self._tainted[memory_address(output)] = earlier
            else:
                self._tainted[memory_address(output)] = self._record(name, inputs, output, *input_range)
        return result

    def _record(
        self, name: str, inputs: list[Tensor], output: Tensor, input_min: float, input_max: float
    ) -> NonFiniteOrigin:
        """Record the current operation as an origin."""
        non_finite = ~output.isfinite()
        rows = (
            non_finite.flatten(1).any(1) if output.dim() > 1 else non_finite if output.dim() else non_finite.reshape(1)
        )
        kind = "NaN" if bool(output.isnan().any()) else "Inf"
        row_indices = tuple(rows.nonzero().flatten().tolist())
        line = get_line_from_frame(sys._getframe(2))
        self.origins.append(
            NonFiniteOrigin(
                name.strip("_"),
                kind,
                input_min,
                input_max,
                tuple(output.shape),
                row_indices,
                self._stack.innermost,
                line,
                any(map(_is_of_weights, inputs)),
                not all(map(is_finite, inputs)),
            )
        )
        return self.origins[-1]


def _is_of_weights(tensor: Tensor) -> bool:
    """Return whether a tensor holds values that a layer with weights returned, in another shape or selected."""
    node = tensor.grad_fn
    while node is not None and node.name().partition("Backward")[0] in VALUE_PRESERVING_NODES and node.next_functions:
        node = node.next_functions[0][0]
    return node is not None and node.name().partition("Backward")[0] in _LAYER_NODES


def is_finite(tensor: Tensor) -> bool:
    """Return whether a tensor contains neither NaN nor Inf."""
    is_dense_float = tensor.is_floating_point() and tensor.layout == torch.strided
    return not is_dense_float or bool(tensor.isfinite().all())


def get_finite_range(inputs: list[Tensor]) -> tuple[float, float]:
    """Return the smallest and the largest finite value of some tensors; NaN if there is none."""
    dense = [t.detach() for t in inputs if t.is_floating_point() and t.layout == torch.strided]
    values = [finite for t in dense if (finite := t[t.isfinite()]).numel()]
    if not values:
        return math.nan, math.nan
    return min(float(finite.min()) for finite in values), max(float(finite.max()) for finite in values)
