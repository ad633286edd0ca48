"""Values that a model in eval mode replaces by a constant at random positions, however this is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import is_random_function
from nbdebug.autograd.tracing import ModuleStack, get_call_name
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.forward_pass import EvalPasses, ForwardPass
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import get_line_from_frame, get_location
from nbdebug.tensors.pytree import tree_tensors

_MAX_VALUES = 10_000_000  # in one tensor that is copied
_MAX_CALLS = 2000
_ROUNDING = 1e-4


@dataclass(frozen=True)
class RandomMask:
    """A call that replaces a share of the values of its input by one value, at random positions."""

    call: str
    where: Location
    value: float
    share: float


@slow_measurement
def random_masks(setup: Setup, eval_passes: EvalPasses, first_pass: ForwardPass) -> list[RandomMask]:
    """Calls that replace values of the first batch at random in eval mode; none if its output is not random.

    Two passes with different random numbers are compared. A call counts if an input of the same shape is equal in both
    and the output is that input except for one value, which is in other positions in each pass. For values of zero, the
    rest may be scaled.
    """
    if eval_passes.relative_difference <= _ROUNDING:
        return []
    try:
        with Preserve(setup.model), torch.no_grad(), in_mode(setup.eager_model, False):
            first, second = (_record_pass(setup, first_pass, seed) for seed in (1, 2))
    except Exception as error:
        raise NotChecked(f"in eval mode the model raised {type(error).__name__}: {error}") from error
    pairs = zip(first, second, strict=False)
    return [mask for before, after in pairs for mask in _compare(before, after)]


@dataclass(frozen=True)
class _ReplacingCall:
    name: str
    where: Location
    signals: tuple[Tensor, ...]
    output: Tensor


class _CallCopier(TorchFunctionMode):
    """Copies the inputs and the output of each call whose output has the shape of an input, also in place."""

    def __init__(self, stack: ModuleStack) -> None:
        super().__init__()
        self._stack = stack
        self.calls: list[_ReplacingCall] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = tree_tensors((args, kwargs or {})) if len(self.calls) < _MAX_CALLS else []
        copies = [tensor.clone() for tensor in inputs if 1 < tensor.numel() <= _MAX_VALUES]
        result = func(*args, **(kwargs or {}))
        outputs = tree_tensors(args[:1] if func is Tensor.__setitem__ else result)
        if copies and outputs and not is_random_function(func):
            output = outputs[0]
            signals = tuple(copy for copy in copies if copy.shape == output.shape and copy.dtype != torch.bool)
            if signals and output.dtype == signals[0].dtype:
                where = get_location(get_line_from_frame(sys._getframe(1)), self._stack.innermost or None)
                self.calls.append(_ReplacingCall(get_call_name(func), where, signals, output.clone()))
        return result


def _record_pass(setup: Setup, first_pass: ForwardPass, seed: int) -> list[_ReplacingCall]:
    stack = ModuleStack()
    with stack.track(setup.eager_model), _CallCopier(stack) as copier:
        seed_all(seed)
        setup.predict(first_pass.batch)
    calls: list[_ReplacingCall] = copier.calls
    return calls


def _compare(before: _ReplacingCall, after: _ReplacingCall) -> Iterator[RandomMask]:
    """Yield the mask of a call that two passes made with the same signal."""
    if before.name != after.name or len(before.signals) != len(after.signals):
        return
    for signal, repeated in zip(before.signals, after.signals, strict=True):
        if signal.shape != repeated.shape or not torch.equal(signal, repeated):
            continue
        masks = [_replaced_positions(signal, call.output) for call in (before, after)]
        values = [call.output[mask] for mask, call in zip(masks, (before, after), strict=True) if mask is not None]
        if len(values) == 2 and values[0][0] == values[1][0] and not torch.equal(*masks):  # type: ignore[arg-type]
            share = sum(len(part) for part in values) / (2 * signal.numel())
            yield RandomMask(before.name, before.where, float(values[0][0]), share)
            return


def _replaced_positions(signal: Tensor, output: Tensor) -> Tensor | None:
    """Return where an output is one constant instead of the signal, up to a factor of the rest; None if nowhere."""
    if signal.dtype != output.dtype:
        return None
    zeroed = (output == 0) & (signal != 0)
    if output.is_floating_point() and bool(zeroed.any()):
        rest = ~zeroed & (signal != 0)
        factors = output[rest] / signal[rest]
        is_scaled = bool(rest.any()) and bool((factors - factors[0]).abs().max() <= _ROUNDING * factors[0].abs())
        return zeroed if is_scaled else None
    replaced = output != signal
    values = output[replaced]
    is_constant = bool(replaced.any()) and not bool(replaced.all()) and bool((values == values[0]).all())
    return replaced if is_constant else None
