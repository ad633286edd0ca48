"""The values that a model can return, found by random numbers in place of what its last layer computes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.autograd.patterns import ValueRange
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.activations import SampleSpread, find_layer_input
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.pytree import tree_map, tree_tensors

_PRODUCTS = frozenset({"linear", "addmm", "mm", "matmul", "rmatmul", "conv1d", "conv2d", "conv3d"})
# Standard deviations of the random values; exp of the largest of a million values is still finite in float32.
_SMALL_SCALE, _LARGE_SCALE = 1.5, 15.0
_MIN_SHARE_AT_BOUND = 0.05
_MAX_GROWTH = 1.5  # an output that grows by more with a tenfold scale has no bound
_MAX_SHIFT = 1e-3  # relative to the range; a bound that differs by more for other samples is one of their values
_SHIFTS = 3  # the number of other orders of the samples
_EARLIER_SCALE = 2.0  # of the results of all layers before the last one


@dataclass(frozen=True)
class OutputRange:
    """The range of the output, and the call that bounds it.

    ``share_at_low`` and ``share_at_high`` of the values at the small scale lie exactly on a finite bound, as those of a
    clamp do; a sigmoid reaches its bounds only at the large one.
    ``sums_to_one`` holds the axes along which all values are positive and sum to one.
    """

    values: ValueRange
    share_at_low: float
    share_at_high: float
    sums_to_one: tuple[int, ...]
    call: str
    where: Location

    @property
    def is_clamped(self) -> bool:
        """True if many values lie exactly on a bound."""
        return max(self.share_at_low, self.share_at_high) > _MIN_SHARE_AT_BOUND


@measurement
def output_range(eval_outputs: EvalOutputs, sample_spread: SampleSpread) -> OutputRange:
    """The range of the output for random values of the last layer, at two scales, in eval mode.

    The random values then meet other samples, and larger results of the earlier layers. A bound that changes is no
    bound of the last operations: an attention that ends the model returns an average of values of its input.
    """
    layers = sample_spread.passes[0].layers
    if not layers or layers[-1].name not in _PRODUCTS:
        raise NotChecked("the model does not end in a layer with a weight matrix and operations without parameters")
    small, large = (_RandomLastLayer(eval_outputs, len(layers) - 1, scale) for scale in (_SMALL_SCALE, _LARGE_SCALE))
    output = large.output
    if large.later_layers > 0:
        raise NotChecked("other layers follow the last one that takes the whole batch, as experts for some samples do")
    if not bool(output.isfinite().all()) or not bool(eval_outputs.changed_values(output).any()):
        raise NotChecked("the output does not depend on the last layer alone")
    low = _bound(float(small.output.min()), float(output.min()))
    high = -_bound(-float(small.output.max()), -float(output.max()))
    low, high = _without_bounds_of_the_input(eval_outputs, len(layers) - 1, output, low, high)
    bounding_call = large.find_bounding_call(math.isfinite(low))
    sums = [(axis, output.sum(axis)) for axis in range(1, output.dim()) if output.shape[axis] > 1]
    return OutputRange(
        ValueRange(low, high),
        float((small.output == low).float().mean()),
        float((small.output == high).float().mean()),
        tuple(axis for axis, total in sums if low >= 0 and torch.allclose(total, torch.ones_like(total), atol=1e-3)),
        bounding_call.name if bounding_call else "",
        bounding_call.where if bounding_call else Location(),
    )


def _bound(at_small_scale: float, at_large_scale: float) -> float:
    """Return the lower bound; minus infinity if the value still falls with the scale.

    A positive value that grows with the scale, as the smallest of some distances does, approaches 0 at smaller scales.
    """
    if at_large_scale > _MAX_GROWTH * at_small_scale > 0:
        return 0.0
    return -math.inf if at_large_scale < min(_MAX_GROWTH * at_small_scale, 0.0) - 1e-6 else at_large_scale


def _without_bounds_of_the_input(
    answers: EvalOutputs, position: int, output: Tensor, low: float, high: float
) -> tuple[float, float]:
    """Return the bounds that stay if only the values change that bypass the last layer; infinity for the others."""
    tolerance = _MAX_SHIFT * float(output.max() - output.min())
    for order, scale in ((range(answers.batch.size), _EARLIER_SCALE), *((o, 1.0) for o in _orders(answers.batch.size))):
        if not math.isfinite(low) and not math.isfinite(high):
            break
        try:
            other = replace(answers, batch=answers.batch.take_samples(order))
            changed = _RandomLastLayer(other, position, _LARGE_SCALE, scale).output
        except Exception:  # such as a graph, whose samples are no rows
            continue
        low = low if abs(float(changed.min() - output.min())) <= tolerance else -math.inf
        high = high if abs(float(changed.max() - output.max())) <= tolerance else math.inf
    return low, high


def _orders(size: int) -> list[list[int]]:
    """Return other orders of the samples, in which each of them meets the random values of another one."""
    shifts = {number * size // (_SHIFTS + 1) for number in range(1, _SHIFTS + 1)} - {0}
    return [[*range(shift, size), *range(shift)] for shift in sorted(shifts)]


class _RandomLastLayer(TorchFunctionMode):
    """One pass with random numbers in place of the result of a layer; layers are counted as ``sample_spread`` does.

    The results of earlier calls with parameters are multiplied by ``earlier_scale``.
    """

    def __init__(self, answers: EvalOutputs, position: int, scale: float, earlier_scale: float = 1.0) -> None:
        super().__init__()
        self._size, self._remaining, self._scale, self._earlier_scale = (
            answers.batch.size,
            position,
            scale,
            earlier_scale,
        )
        self._later_calls: list[tuple[TorchCall, float, float]] = []
        self.later_layers = -1  # the replaced layer itself is recorded first
        with record_calls(answers.setup.eager_model, self._record), self:
            self.output = answers.predict(answers.batch)[0]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        signal, weights = find_layer_input(tree_tensors((args, kwargs)), self._size)
        if weights and self._remaining >= 0 and self._earlier_scale != 1.0:
            result = tree_map(result, self._scaled)
        if signal is not None:
            if self._remaining == 0 and isinstance(result, Tensor):
                result = self._scale * torch.randn_like(result)
            self._remaining -= 1
        return result

    def _scaled(self, leaf: Any) -> Any:
        is_value = isinstance(leaf, Tensor) and leaf.is_floating_point() and not isinstance(leaf, nn.Parameter)
        return leaf * self._earlier_scale if is_value else leaf

    def _record(self, call: TorchCall) -> None:
        self.later_layers += self._remaining < 0 and call.name in _PRODUCTS
        if self._remaining < 0 and call.outputs[0].is_floating_point() and call.outputs[0].numel():
            low, high = torch.aminmax(call.outputs[0].detach())
            self._later_calls.append((call, float(low), float(high)))

    def find_bounding_call(self, from_below: bool) -> TorchCall | None:
        """Return the first call whose result has no values as extreme as the random ones, below or above."""
        limits = [-low if from_below else high for _, low, high in self._later_calls]
        return next(
            (call for (call, *_), limit in zip(self._later_calls, limits, strict=True) if limit < self._scale), None
        )
