"""Positions that are added to the input of an attention: the same row for all of them, or rows that drown the input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.attention_calls import CallGraph
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.finding import Location
from nbdebug.measurements.attention_pass import ATTENTION_CALLS, AttentionPass
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.short_trials import Intervention, TrialPair, run_trials
from nbdebug.setup import Batch, Setup

_VIEW_CALLS = frozenset(
    {"view", "reshape", "unsqueeze", "expand", "expand_as", "getitem", "to", "squeeze", "repeat", "clone", "narrow"}
    | {"transpose", "contiguous", "detach", "mul", "index_select", "embedding", "type_as", "dropout"}
)
_SUM_CALLS = frozenset({"add", "radd"})
_MIN_LENGTH = 4
_MIN_RATIO = 5.0  # of positions to inputs: sinusoids have 0.7, and normal tables 1, for normal embeddings
_STEPS = 100
_ROUNDING = 1e-5


@dataclass(frozen=True)
class ConstantPositions:
    """A table of ``rows`` vectors, of which each of the ``length`` positions of a sequence gets the same one."""

    rows: int
    length: int
    where: Location


@dataclass(frozen=True)
class LargePositions:
    """A sum in which positions differ ``ratio`` times as much from each other as the inputs of different samples do.

    In the changed trial, positions are divided by ``ratio``.
    """

    ratio: float
    where: Location
    trials: TrialPair

    @property
    def share(self) -> float:
        """The share of positions in the variance of the sum."""
        return self.ratio**2 / (1 + self.ratio**2)


@slow_measurement
def large_positions(
    setup: Setup, attention_pass: AttentionPass, batches: list[Batch], budget: str
) -> LargePositions | None:
    """The sum in which positions drown the input most, with two trials of a copy; None if there is none.

    All such sums are changed in the second trial, as those of an encoder and a decoder.
    """
    sums = [call for call in attention_pass.calls if call.name in _SUM_CALLS]
    numbers = {id(call): number for number, call in enumerate(sums)}
    divisors: dict[tuple[int, int], float] = {}
    with torch.no_grad():
        for call, term, other in _fixed_terms(sums):
            is_score = call.outputs[0].shape[1] == call.outputs[0].shape[2]  # to which a mask is added
            ratio = 0.0 if is_score else _compute_ratio(call.outputs[0] - other, other)
            operand = next((k for k, value in enumerate(call.args) if value is term), None)
            if _MIN_RATIO < ratio < math.inf and operand is not None:
                divisors[numbers[id(call)], operand] = ratio
    if not divisors:
        return None
    trials = run_trials(setup, batches, _STEPS, budget, intervention=_SmallerPositions(divisors), is_suspected=True)
    (number, _), ratio = max(divisors.items(), key=lambda item: item[1])
    return LargePositions(ratio, sums[number].where, trials)


def _compute_ratio(added: Tensor, other: Tensor) -> float:
    """Return how much positions differ from each other, relative to the differences between samples."""
    spread = float((other - other.mean(0)).square().mean())
    return (float((added - added.mean(1, keepdim=True)).square().mean()) / spread) ** 0.5 if spread else 0.0


class _SmallerPositions(Intervention):
    """Divides operands of some sums of a pass: by number of the sum and position of the operand."""

    def __init__(self, divisors: dict[tuple[int, int], float]) -> None:
        super().__init__()
        self._divisors, self._number = divisors, 0

    def start(self, size: int) -> None:
        """Count the sums of a pass from the first one."""
        self._number = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "").strip("_") in _SUM_CALLS:
            divisors = [self._divisors.get((self._number, operand)) for operand in range(len(args))]
            args = [value / divisor if divisor else value for value, divisor in zip(args, divisors, strict=True)]
            self._number += 1
        return func(*args, **(kwargs or {}))


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
        if call.name not in _SUM_CALLS or len(tensors) != 2 or result.dim() != 3:
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
