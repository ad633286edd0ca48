"""Sums weighted by a softmax: whether the weights of a sum add up to one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nbdebug.autograd.attention_calls import softmax_axis
from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.tensors.pytree import tree_map, tree_tensors

_TOLERANCE = 1e-3
_MAX_COORDINATES = 4  # that a grid has for each position
_LAYOUT_CALLS = {
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "swapaxes"),
    *("contiguous", "clone", "to", "float", "double", "getitem"),
}
_ELEMENTWISE_PRODUCTS = {"mul", "rmul", "multiply"}
_PRODUCTS = {"matmul", "rmatmul", "bmm", "mm", "mv", "einsum", "tensordot", "linear", *_ELEMENTWISE_PRODUCTS}
_OPERAND_CALLS = {"to", "type_as", "expand_as", "view_as", "reshape_as"}  # take the values of their first operand only
_FactorKind = Literal["none", "positions", "values"]


@dataclass(frozen=True)
class UnnormalizedSum:
    """A softmax over an ``axis`` whose result weights a sum over other positions, to ``total`` instead of one.

    ``weights_positions`` is True if the sum is one of constants, as of the coordinates of a soft argmax, and False if
    it is one of values that differ along the axis of the softmax too, as in a pooling.
    """

    softmax: TorchCall
    axis: int
    total: float
    weights_positions: bool


@slow_measurement
def unnormalized_sums(eval_outputs: EvalOutputs) -> list[UnnormalizedSum]:
    """Weighted sums of constants, or of values with the axis of the softmax, whose weights do not add up to one.

    Each call behind a softmax is repeated with ones in place of what it weights, which gives the total of the weights.
    A sum is left out if another scale of the weights does not change the output, as where a division follows.
    """
    if "softmax" not in eval_outputs.called_functions:
        raise NotChecked("the model has no softmax")
    tracker = _WeightTracker(eval_outputs)
    with record_calls(eval_outputs.setup.eager_model, tracker.add):
        eval_outputs.predict(eval_outputs.batch)
    return [
        UnnormalizedSum(call, axis, weights.total, weights.factor == "positions")
        for number, (call, axis) in enumerate(tracker.softmaxes)
        if (weights := tracker.find_unnormalized(number)) is not None and _has_effect(eval_outputs, number, axis)
    ]


def _has_effect(answers: EvalOutputs, number: int, axis: int) -> bool:
    """Return whether the output changes with the scale of the weights at each position along the axis of a softmax."""
    remaining = [number]

    def scale(call: TorchCall) -> None:
        if call.name != "softmax" or softmax_axis(call) is None:
            return
        if not remaining[0]:
            weights = call.outputs[0]
            factors = 0.5 + torch.rand(weights.shape[axis], generator=torch.Generator().manual_seed(0)).to(weights)
            weights.mul_(factors.reshape(-1, *[1] * (weights.dim() - 1 - axis)))
        remaining[0] -= 1

    with record_calls(answers.setup.eager_model, scale):
        after = answers.predict(answers.batch)[0]
    return bool(answers.changed_values(after).any())


@dataclass(frozen=True)
class _Weights:
    """A tensor that is linear in the result of a softmax.

    ``number`` is that of the softmax, or -1 for one that is not judged. ``masses`` are its values with ones in place of
    all other factors, ``places`` the positions along the axis of the softmax; None behind a product or a sum.
    ``factor`` is what the weights have been multiplied with, and ``has_rows`` tells whether each weight belongs to a
    row of values, along the last axis.
    """

    number: int
    masses: Tensor
    places: Tensor | None
    factor: _FactorKind = "none"
    has_rows: bool = False
    is_summed: bool = False

    @property
    def total(self) -> float:
        """The mean of the totals of the weights."""
        return float(self.masses.float().mean())

    @property
    def is_unnormalized(self) -> bool:
        """Whether most of the totals of a finished sum are not one."""
        is_one = (self.masses.float() - 1).abs() < _TOLERANCE
        return self.is_summed and self.factor != "none" and float(is_one.float().mean()) <= 0.5


class _WeightTracker:
    """Follows the results of softmaxes through the calls of one pass, up to the sums that they weight."""

    def __init__(self, answers: EvalOutputs) -> None:
        self.softmaxes: list[tuple[TorchCall, int]] = []
        self._weights: dict[int, _Weights] = {}
        self._used: set[int] = set()
        self._variable_ids = {id(t) for t in answers.inputs.values()}
        self._sum_ids: set[int] = set()
        self._references: list[Any] = [answers.inputs]  # ids are unique while the tensors live

    def find_unnormalized(self, number: int) -> _Weights | None:
        """Return the sum of a softmax whose weights do not add up to one; None if there is none."""
        ends = (weights for key, weights in self._weights.items() if key not in self._used and weights.number == number)
        return next((weights for weights in ends if weights.is_unnormalized), None)

    def add(self, call: TorchCall) -> None:
        """Add a call."""
        operands = call.inputs[:1] if call.name in _OPERAND_CALLS else call.inputs
        is_variable = any(id(t) in self._variable_ids or isinstance(t, nn.Parameter) for t in operands)
        is_from_sum = any(id(t) in self._sum_ids for t in operands)
        axis = softmax_axis(call) if call.name == "softmax" else None
        followed = self._follow(call) if axis is None else None
        self._references += [call.inputs, call.outputs]
        if axis is not None:
            self.softmaxes.append((call, axis % call.outputs[0].dim()))
        if axis is not None:  # the weights of a routing are first constants, and then made of their own sums
            followed = self._start(call.outputs[0], axis, is_judged=is_variable and not is_from_sum)
        self._variable_ids.update(id(t) for t in call.outputs if is_variable)
        if followed is not None:
            self._weights[id(call.outputs[0])] = followed
        is_from_sum |= followed is not None and followed.is_summed
        self._sum_ids.update(id(t) for t in call.outputs if is_from_sum)

    def _start(self, result: Tensor, axis: int, *, is_judged: bool) -> _Weights:
        number = len(self.softmaxes) - 1 if is_judged else -1
        places = torch.arange(result.shape[axis], device=result.device)
        places = places.reshape(-1, *[1] * (result.dim() - 1 - axis % result.dim())).expand(result.shape)
        return _Weights(number, result.detach().clone(), places)

    def _follow(self, call: TorchCall) -> _Weights | None:
        """Return the weights in the result of a call that moves, multiplies or sums them; None for any other call."""
        known = next((t for t in call.inputs if id(t) in self._weights), None)
        if known is None or "out" in call.kwargs or len(call.outputs) != 1:
            return None
        weights, result = self._weights[id(known)], call.outputs[0]
        if call.name == "dropout" and torch.equal(known, result):
            return weights
        others = [t for t in call.inputs if t is not known]
        followed = None
        if call.name in _LAYOUT_CALLS and not others and known.numel() == result.numel():
            followed = replace(weights, places=_repeat(call, known, weights.places))
        elif call.name == "sum" and known.dim() > 1 and result.dim() > 0 and result.numel() < known.numel():
            is_of_row = weights.has_rows and result.shape[-1] != known.shape[-1]
            followed = None if is_of_row else replace(weights, places=None, is_summed=True)
        elif call.name in _PRODUCTS and others and not any(id(t) in self._weights for t in others):
            followed = self._multiply(call, weights, known, others)
        masses = _repeat(call, known, weights.masses) if followed is not None else None
        if followed is None or masses is None:
            return None
        self._used.add(id(known))
        return replace(followed, masses=masses)

    def _multiply(self, call: TorchCall, weights: _Weights, known: Tensor, others: list[Tensor]) -> _Weights | None:
        """Return weights that are multiplied with other tensors; None if these are values of other items."""
        factor = self._factor_kind(call, weights, known, others)
        if factor == "none":
            return None
        has_rows = factor == "values" and known.shape != call.outputs[0].shape
        is_summed = weights.is_summed or call.name not in _ELEMENTWISE_PRODUCTS
        return replace(weights, factor=factor, places=None, has_rows=has_rows, is_summed=is_summed)

    def _factor_kind(self, call: TorchCall, weights: _Weights, known: Tensor, others: list[Tensor]) -> _FactorKind:
        """Return what weights are multiplied with: constant positions, values with the axis of the softmax, or else."""
        if not any(id(t) in self._variable_ids or isinstance(t, nn.Parameter) for t in others):
            is_elementwise = call.name in _ELEMENTWISE_PRODUCTS
            return "positions" if all(_is_grid(t, is_elementwise=is_elementwise) for t in others) else weights.factor
        is_first = call.name in _ELEMENTWISE_PRODUCTS and weights.factor == "none"
        return "values" if is_first and _has_own_axis(others[0], known, weights.places) else "none"


def _repeat(call: TorchCall, known: Tensor, values: Tensor | None) -> Tensor | None:
    """Return the result of a call for other values of one operand, and ones in place of the others."""
    if values is None or call.function is None:
        return None

    def exchange(leaf: Any) -> Any:
        if leaf is known:
            return values
        return torch.ones_like(leaf) if isinstance(leaf, Tensor) else leaf

    args, kwargs = tree_map((call.args, call.kwargs), exchange)
    with torch.no_grad():
        results = tree_tensors(call.function(*args, **kwargs))
    return results[0] if results else None


def _is_grid(values: Tensor, *, is_elementwise: bool) -> bool:
    """Return whether constants are positions: at least three different ones, and no mask and no weights of a mean."""
    if not is_elementwise and values.numel() > _MAX_COORDINATES * max(values.shape, default=1):
        return False
    if values.unique().numel() < 3:  # type: ignore[no-untyped-call]
        return False
    sums = [values.double().sum(axis) for axis in range(values.dim()) if values.shape[axis] > 1]
    return not (bool((values >= 0).all()) and any(bool((each - 1).abs().lt(_TOLERANCE).all()) for each in sums))


def _has_own_axis(values: Tensor, known: Tensor, places: Tensor | None) -> bool:
    """Return whether values have the axis of a softmax too, with one weight for each or for each row of them."""
    if places is None or values.dim() != known.dim() or known.shape[-1] not in (1, values.shape[-1]):
        return False
    axes = [axis for axis in range(places.dim()) if places.shape[axis] > 1 and bool(places.diff(dim=axis).any())]
    return known.shape[:-1] == values.shape[:-1] and len(axes) == 1 and bool(values.diff(dim=axes[0]).any())
