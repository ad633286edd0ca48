"""Residual connections around attentions and feed-forward layers: missing, added twice, or without a gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.attention_pass import AttentionPass
from nbdebug.measurements.registry import slow_measurement

_SUMS = frozenset({"add", "radd", "iadd"})
_ACTIVATIONS = frozenset({"relu", "gelu", "silu", "mish", "elu", "leaky_relu", "tanh", "sigmoid"})
_LINEAR_CALLS = frozenset({"linear", "matmul", "addmm"})
_LAYER_CALLS = _LINEAR_CALLS | {"einsum"}
_QUERY_CALLS = frozenset(
    {"view", "reshape", "transpose", "permute", "unflatten", "getitem", "chunk", "split", "mul", "add", "cat", "sub"}
    | {"contiguous", "truediv", "div", "neg", "rsub", "stack", "flatten", "unbind", "layer_norm", "rms_norm", "norm"}
)
_PASSING_CALLS = frozenset(
    {"view", "reshape", "transpose", "permute", "contiguous", "clone", "flatten", "dropout", "layer_norm", "rms_norm"}
    | {"linear", "matmul", "addmm", "getitem", "unflatten", "squeeze", "unsqueeze", "to", "mul", "rmul", "movedim"}
    | {"rmatmul", "add", "detach"}
)
_MAX_CALLS, _MAX_TERMS = 12, 512  # calls of one branch after its activation or attention; terms of a sum
_JOINING_CALLS = frozenset({"cat", "concat", "stack", "mul", "sub", "where", "lerp"})
_FaultKind = Literal["missing", "doubled", "detached"]


@dataclass(frozen=True)
class ResidualFault:
    """A residual connection at fault, and the number of branches with and without a connection."""

    kind: _FaultKind
    where: Location
    branch: Literal["attention", "feed-forward part", "branch"] = "branch"
    connected: int = 0
    missing: int = 0


@dataclass
class _Stream:
    """The calls of a pass as a graph, with what each tensor depends on and is a sum of."""

    recorded: AttentionPass
    positions: dict[int, int] = field(default_factory=dict)
    sums: dict[int, list[Tensor]] = field(default_factory=dict)
    doubled: list[TorchCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Number the calls, and collect the terms of each sum in order, since sums may be in place.

        A sum of very many terms counts as one.
        """
        self.calls, self.graph = self.recorded.calls, self.recorded.graph
        self.positions = {id(call): number for number, call in enumerate(self.calls)}
        for call in self.calls:
            if (operands := _operands(call)) is not None:
                first, second = (self.find_terms(operand) for operand in operands)
                if _is_doubled(operands, first, second):
                    self.doubled.append(call)
                terms = [*first, *second]
                self.sums[id(call.outputs[0])] = terms if len(terms) <= _MAX_TERMS else [call.outputs[0]]

    def depends_on(self, tensor: Tensor, source: Tensor) -> bool:
        """Return whether a tensor has been computed from another one."""
        maker = self.graph.makers.get(id(source))
        start = self.positions[id(maker)] if maker is not None else -1
        pending, visited = [tensor], set[int]()
        while pending:
            current = pending.pop()
            if current is source:
                return True
            call = self.graph.makers.get(id(current))
            if id(current) in visited or call is None or self.positions[id(call)] <= start:
                continue
            visited.add(id(current))
            pending += [t for t in call.inputs if not isinstance(t, nn.Parameter)]
        return False

    def find_terms(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors that a tensor is the sum of."""
        return self.sums.get(id(tensor), [tensor])


def _operands(call: TorchCall) -> tuple[Tensor, Tensor] | None:
    """Return the two activations of one shape that a call adds; None for anything else, such as a bias."""
    tensors = [a for a in (*call.args, *call.kwargs.values()) if isinstance(a, Tensor)]
    if call.name not in _SUMS or len(tensors) != 2 or len(call.args) < 2:
        return None
    first, second = tensors
    is_activation = not isinstance(first, nn.Parameter) and not isinstance(second, nn.Parameter)
    return (first, second) if is_activation and first.shape == second.shape and first.dim() > 2 else None


@slow_measurement
def residual_faults(attention_pass: AttentionPass) -> list[ResidualFault]:
    """Residual connections of a model with attention that are missing, added twice, or detached."""
    stream = _Stream(attention_pass)
    with torch.no_grad():
        branches = list(_find_branches(stream))
        if len(branches) < 2:
            raise NotChecked("the model has no two attentions or feed-forward parts")
        detached = list(_find_detached(stream))
        doubled = [ResidualFault("doubled", call.where) for call in stream.doubled[:1]]
        return [*doubled, *(detached or _find_missing(stream, branches))]


@dataclass(frozen=True)
class _Branch:
    """An attention or a feed-forward part: its input, its last call inside, and whether its result meets its input."""

    kind: Literal["attention", "feed-forward part"]
    call: TorchCall
    source: Tensor
    is_connected: bool
    result: TorchCall | None


def _find_branches(stream: _Stream) -> Iterator[_Branch]:
    for attention in stream.recorded.attentions:
        source = _input_of_layers(stream, attention.query)
        if source is not None:
            yield _follow(stream, "attention", attention.mixture, attention.output, source)
    for call in stream.calls:
        if call.name == "multi_head_attention_forward":
            source = _behind_views(stream, call.args[0])
            yield _follow(stream, "attention", call, call.outputs[0], source)
    for call in stream.calls:
        if call.name in _ACTIVATIONS:
            maker = stream.graph.makers.get(id(call.inputs[0]))
            if maker is not None and maker.name in _LINEAR_CALLS and maker.inputs[0].dim() > 2:
                branch = _follow(stream, "feed-forward part", call, call.outputs[0], maker.inputs[0])
                if branch.result is not None:
                    yield branch


def _input_of_layers(stream: _Stream, query: Tensor) -> Tensor | None:
    """Return the tensor that the layer of the queries reads; None if no layer makes them."""
    for _, call in stream.graph.sources(query, _QUERY_CALLS):
        if call.name in _LAYER_CALLS and any(isinstance(t, nn.Parameter) for t in call.inputs):
            return next((t for t in call.inputs if not isinstance(t, nn.Parameter)), None)
    return None


def _behind_views(stream: _Stream, tensor: Tensor) -> Tensor:
    """Return the tensor that views have been made of."""
    names = frozenset({"transpose", "contiguous", "permute", "view"})
    last = tensor
    for current, call in stream.graph.sources(tensor, names):
        last = current
        if call.name not in names:
            break
    return last


def _partners(call: TorchCall, result: Tensor) -> list[Tensor]:
    """Return the activations that a call adds to a result, joins with it, or multiplies it by."""
    operands = _operands(call)
    if operands is None and call.name not in _JOINING_CALLS:
        return []
    return [t for t in (operands or call.inputs) if t is not result and not isinstance(t, nn.Parameter)]


def _has_term_before(stream: _Stream, other: Tensor, source: Tensor) -> bool:
    """Return whether a value, or a term of it, is the input of a branch, or what that has been computed from."""
    return any(stream.depends_on(source, _behind_views(stream, term)) for term in stream.find_terms(other))


def _follow(
    stream: _Stream, kind: Literal["attention", "feed-forward part"], start: TorchCall, result: Tensor, source: Tensor
) -> _Branch:
    """Follow the result of a branch to the sum with its input, or to the next call that is no layer of the branch.

    Sums with other results of the same input, such as those of several experts, belong to the branch.
    """
    origin = _behind_views(stream, source)
    current, layers = result, int(start.name == "multi_head_attention_forward")  # which has an output layer
    for _ in range(_MAX_CALLS):
        takers = [c for c in stream.graph.takers.get(id(current), ()) if c.outputs[0] is not current or c.name in _SUMS]
        for call in takers:
            if any(_has_term_before(stream, other, source) for other in _partners(call, current)):
                return _Branch(kind, start, source, True, call)
        following = next((c for c in takers if c.name in _PASSING_CALLS), None)
        if following is None:
            break
        if following.name in ("linear", "addmm"):
            layers += 1
        if layers > 1:
            break
        is_sum = following.name == "add" and _operands(following) is not None
        partners = _partners(following, current) if is_sum else []
        is_inside = all(any(stream.depends_on(other, own) for own in (result, origin)) for other in partners)
        if following.name in ("layer_norm", "rms_norm") or (is_sum and not is_inside):
            break
        current = following.outputs[0]
    maker = stream.graph.makers.get(id(current))
    is_branch = layers >= 1 and maker is not None and current.shape == source.shape and current is not source
    is_branch = is_branch and bool((source != source[:1]).any())  # learned queries are no input to keep
    return _Branch(kind, start, source, False, maker if is_branch else None)


def _find_missing(stream: _Stream, branches: list[_Branch]) -> Iterator[ResidualFault]:
    """Yield the branches without a connection whose result other branches read, if most models' branches have one."""
    connected = [branch for branch in branches if branch.is_connected]
    loose = [
        branch
        for branch in branches
        if not branch.is_connected and branch.result is not None and _is_read_later(stream, branch, branches)
    ]
    if connected and loose:
        first = loose[0]
        assert first.result is not None
        yield ResidualFault("missing", first.result.where, first.kind, len(connected), len(loose))


def _is_read_later(stream: _Stream, branch: _Branch, branches: list[_Branch]) -> bool:
    assert branch.result is not None
    result = branch.result.outputs[0]
    start = stream.positions[id(branch.result)]
    later = [other for other in branches if stream.positions[id(other.call)] > start]
    return any(stream.depends_on(other.source, result) for other in later)


def _is_doubled(operands: tuple[Tensor, Tensor], first: list[Tensor], second: list[Tensor]) -> bool:
    """Return whether one operand of a sum has all terms of the other, and at most one more."""
    if not any(tensor.requires_grad for tensor in operands):
        return False
    smaller, larger = sorted((Counter(map(id, terms)) for terms in (first, second)), key=Counter.total)
    return smaller <= larger and (larger - smaller).total() <= 1


def _find_detached(stream: _Stream) -> Iterator[ResidualFault]:
    """Yield the first sum of a detached tensor with what has been computed from it with a gradient."""
    for call in stream.calls:
        operands = _operands(call)
        for value, branch in (operands, operands[::-1]) if operands is not None else ():
            maker = stream.graph.makers.get(id(value))
            if maker is not None and maker.name in ("detach", "get") and not value.requires_grad:
                source = maker.inputs[0]
                if source.requires_grad and branch.requires_grad and stream.depends_on(branch, source):
                    yield ResidualFault("detached", call.where)
                    return
