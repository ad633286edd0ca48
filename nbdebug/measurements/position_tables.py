"""Tables of positions that are added to the input of an attention with the same row for all positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.autograd.attention_calls import CallGraph
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.finding import Location
from nbdebug.measurements.attention_pass import ATTENTION_CALLS, AttentionPass
from nbdebug.measurements.registry import slow_measurement

_VIEW_CALLS = frozenset(
    {"view", "reshape", "unsqueeze", "expand", "expand_as", "getitem", "to", "squeeze", "repeat", "clone", "narrow"}
    | {"transpose", "contiguous", "detach", "mul", "index_select", "embedding", "type_as", "dropout"}
)
_MIN_LENGTH = 4
_ROUNDING = 1e-5


@dataclass(frozen=True)
class ConstantPositions:
    """A table of ``rows`` vectors, of which each of the ``length`` positions of a sequence gets the same one."""

    rows: int
    length: int
    where: Location


@slow_measurement
def constant_positions(attention_pass: AttentionPass) -> ConstantPositions | None:
    """The table that gives all positions the same vector before the first attention; None if positions differ."""
    graph, calls = attention_pass.graph, attention_pass.calls
    end = next(k for k, call in enumerate(calls) if call.name in ATTENTION_CALLS)
    constant: list[ConstantPositions] = []
    with torch.no_grad():
        for call, term, other in _fixed_terms(calls[:end]):
            length, rows = call.outputs[0].shape[1], _count_rows(graph, term)
            added = call.outputs[0] - other  # the term itself may be a table of zeros that was filled for the pass
            tolerance = _ROUNDING * float(call.outputs[0].abs().max())
            if float((added - added[:, :1]).abs().max()) > tolerance:
                return None
            if rows is not None and rows >= length:
                constant.append(ConstantPositions(rows, length, call.where))
    return constant[0] if constant else None


def _fixed_terms(calls: Sequence[TorchCall]) -> Iterator[tuple[TorchCall, Tensor, Tensor]]:
    """Yield the sums of sequences of vectors with a term that is the same for all samples, with both terms."""
    for call in calls:
        tensors = [a for a in (*call.args, *call.kwargs.values()) if isinstance(a, Tensor)]
        result = call.outputs[0]
        if call.name not in ("add", "radd") or len(tensors) != 2 or result.dim() != 3:
            continue
        if result.shape[1] < _MIN_LENGTH or len(result) < 2 or not result.is_floating_point():
            continue
        for term, other in (tensors, tensors[::-1]):
            is_fixed = term.dim() < 3 or bool((term.detach() == term.detach()[:1]).all())
            if is_fixed and term.dim() > 0:
                yield call, term, other
                break


def _count_rows(graph: CallGraph, term: Tensor) -> int | None:
    """Return the number of vectors in the table that a term has been taken from; None for a single vector."""
    sources = [term, *(t for _, call in graph.sources(term, _VIEW_CALLS) for t in call.inputs)]
    tables = [t for t in sources if _is_table(t) and id(t) not in graph.makers]
    return max((t.shape[-2] for t in tables), default=None)


def _is_table(tensor: Tensor) -> bool:
    """Return whether a tensor has vectors of several positions: a parameter or a buffer."""
    is_leaf = isinstance(tensor, nn.Parameter) or not tensor.requires_grad
    return is_leaf and tensor.is_floating_point() and tensor.dim() > 1 and tensor.shape[-2] > 1
