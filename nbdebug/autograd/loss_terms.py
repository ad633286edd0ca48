"""The terms of a loss: which tensor of the output meets which tensor of the target, and the scalars made of both."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.source.location import get_line_from_frame
from nbdebug.tensors.pytree import tree_tensors

_LOSS_SUFFIXES = ("_loss", "cross_entropy", "_with_logits", "kl_div")
_DIFFERENCES = ("sub", "subtract", "rsub")
_LOSSES_OF_TWO_INPUTS = ("cosine_embedding_loss", "margin_ranking_loss")
_LOOKUPS = ("gather", "take_along_dim", "index_select")
_Roots = frozenset[int]


@dataclass(frozen=True)
class LossTerm:
    """A tensor of the output and one of the target, the ``call`` in which they meet, and its two operands.

    ``calls`` are those with values of these two and of no other pair. ``scalars`` are the parts of the loss that they
    return; there are none if the call raised an exception. ``meetings`` is the number of calls in which the two meet.
    """

    output: Tensor
    target: Tensor
    call: TorchCall
    operands: tuple[Tensor, Tensor]
    calls: tuple[TorchCall, ...] = ()
    scalars: tuple[Tensor, ...] = ()
    meetings: int = 1

    @property
    def value(self) -> Tensor | None:
        """The sum of the scalars; None if there are none."""
        return torch.stack([scalar.reshape(()) for scalar in self.scalars]).sum() if self.scalars else None


def bind_arguments(function: Callable[..., Any], call: TorchCall) -> dict[str, Any] | None:
    """Return the arguments of a call of a function by name, with its defaults; None if they do not fit."""
    try:
        bound = _signature(function).bind(*call.args, **call.kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return dict(bound.arguments)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def is_loss_call(call: TorchCall) -> bool:
    """Check whether a call is one of torch's losses."""
    return call.name.endswith(_LOSS_SUFFIXES)


def record_loss_calls(compute_loss: Callable[[], Any]) -> tuple[list[TorchCall], Exception | None]:
    """Return the torch calls of a loss, the last of which may have raised the exception that is returned too."""
    recorder, error = _LossCallRecorder(), None
    try:
        with recorder:
            compute_loss()
    except Exception as raised:
        error = raised
    return recorder.calls, error


class _LossCallRecorder(TorchFunctionMode):
    """Records every torch call, also one that raises; such a call has no outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[TorchCall] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "call").strip("_")
        inputs, line = tuple(tree_tensors((args, kwargs))), get_line_from_frame(sys._getframe(1))
        result: Any = ()
        try:
            result = func(*args, **kwargs)
            return result
        finally:
            self.calls.append(TorchCall(name, inputs, tuple(tree_tensors(result)), args, kwargs, None, line))


def find_terms(
    calls: Sequence[TorchCall],
    outputs: Iterable[Tensor],
    targets: Iterable[Tensor],
    compares: Callable[[TorchCall], bool] | None = None,
) -> list[LossTerm]:
    """Return a term for each tensor of the output that meets a tensor of the target, in the order of the calls.

    They meet in a call that ``compares`` accepts. By default, a call without a gradient whose prediction has one does
    not count: it only chooses, such as the cost by which pairs are matched.
    """
    outputs_by_id, targets_by_id = {id(t): t for t in outputs}, {id(t): t for t in targets}
    roots = _trace_roots(calls, {*outputs_by_id, *targets_by_id})
    meetings: dict[tuple[int, int], list[tuple[TorchCall, tuple[Tensor, Tensor]]]] = {}
    for call, call_roots in zip(calls, roots, strict=True):
        if (operands := _get_operands(call)) is None:
            continue
        of_prediction, of_target = (call_roots.get(id(operand), frozenset()) for operand in operands)
        met_outputs, met_targets = of_prediction & outputs_by_id.keys(), of_target & targets_by_id.keys()
        if len(met_outputs) == len(met_targets) == 1 and not of_target & outputs_by_id.keys():
            (output,), (target,) = met_outputs, met_targets
            if compares(call) if compares else _has_gradient(call, outputs_by_id[output]):
                meetings.setdefault((output, target), []).append((call, operands))
    met = frozenset(root for pair in meetings for root in pair)
    return [
        LossTerm(
            outputs_by_id[output],
            targets_by_id[target],
            *calls_of_pair[0],
            *_find_own_calls(calls, roots, frozenset({output, target}), met, frozenset(outputs_by_id)),
            len(calls_of_pair),
        )
        for (output, target), calls_of_pair in meetings.items()
    ]


def iter_meetings(calls: Sequence[TorchCall], outputs: Iterable[Tensor]) -> Iterator[TorchCall]:
    """Yield the calls that take values of two different tensors of the output, each by an input of its own."""
    for call, roots in zip(calls, _trace_roots(calls, {id(tensor) for tensor in outputs}), strict=True):
        if len({roots[id(tensor)] for tensor in call.inputs if len(roots[id(tensor)]) == 1}) > 1:
            yield call


def _has_gradient(call: TorchCall, output: Tensor) -> bool:
    return not output.requires_grad or not call.outputs or call.outputs[0].requires_grad


def _trace_roots(calls: Sequence[TorchCall], root_ids: set[int]) -> list[Mapping[int, _Roots]]:
    """Return, for each call, the roots that its tensors are made of, by the ``id`` of the tensor."""
    known: dict[int, _Roots] = {root: frozenset({root}) for root in root_ids}
    traced: list[Mapping[int, _Roots]] = []
    for call in calls:
        of_inputs = {id(tensor): known.get(id(tensor), frozenset()) for tensor in call.inputs}
        union = frozenset().union(*of_inputs.values())
        known.update({id(tensor): union for tensor in call.outputs})
        traced.append({**{id(tensor): union for tensor in call.outputs}, **of_inputs})
    return traced


def _get_operands(call: TorchCall) -> tuple[Tensor, Tensor] | None:
    """Return the prediction and the target of a call that compares the two; None for other calls."""
    first, second = (
        next((call.kwargs[name] for name in names if name in call.kwargs), _at(call.args, position))
        for position, names in enumerate((("input", "input1", "log_probs"), ("target", "targets")))
    )
    if call.name in _LOOKUPS:
        second = call.kwargs.get("index", _at(call.args, 2))
    elif call.name == "getitem":
        indices = [t for t in tree_tensors(second) if not t.is_floating_point() and t.dtype != torch.bool]
        second = indices[-1] if indices else None
    elif call.name in _DIFFERENCES:
        second = call.kwargs.get("other", _at(call.args, 1))
        if (
            isinstance(first, Tensor)
            and isinstance(second, Tensor)
            and second.requires_grad
            and not first.requires_grad
        ):
            first, second = second, first
    elif call.name in _LOSSES_OF_TWO_INPUTS:
        second = call.kwargs.get("target", _at(call.args, 2))
    elif not is_loss_call(call):
        return None
    return (first, second) if isinstance(first, Tensor) and isinstance(second, Tensor) else None


def _at(args: Sequence[Any], position: int) -> Any:
    return args[position] if position < len(args) else None


def _find_own_calls(
    calls: Sequence[TorchCall], roots: Sequence[Mapping[int, _Roots]], pair: _Roots, met: _Roots, outputs: _Roots
) -> tuple[tuple[TorchCall, ...], tuple[Tensor, ...]]:
    """Return the calls with values of a pair alone, and the last scalars of them, as where the terms are added up.

    Outputs that meet no target, such as a variance, may take part if no scalar is free of them.
    """
    alone = _select_own_calls(calls, roots, pair, (met | outputs) - pair)
    return alone if alone[1] else _select_own_calls(calls, roots, pair, met - pair)


def _select_own_calls(
    calls: Sequence[TorchCall], roots: Sequence[Mapping[int, _Roots]], pair: _Roots, others: _Roots
) -> tuple[tuple[TorchCall, ...], tuple[Tensor, ...]]:
    own: list[TorchCall] = []
    last: dict[int, Tensor] = {}
    for call, call_roots in zip(calls, roots, strict=True):
        union = frozenset().union(*(call_roots[id(tensor)] for tensor in call.inputs))
        in_place = {id(tensor) for tensor in call.inputs} & {id(tensor) for tensor in call.outputs}
        if union & others or not union & pair:
            continue
        own.append(call)
        if not pair <= union or in_place or call.name == "detach":
            continue
        has_gradient = any(tensor.requires_grad for tensor in call.inputs)
        scalars = [t for t in call.outputs if t.numel() == 1 and t.dim() < 2 and t.requires_grad == has_gradient]
        if scalars or not call.outputs:
            for tensor in call.inputs:
                last.pop(id(tensor), None)
        last.update({id(tensor): tensor for tensor in scalars})
    return tuple(own), tuple(last.values())
