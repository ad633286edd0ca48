"""Find the attentions among recorded calls: products of queries and keys whose softmax weights the values."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall

PRODUCT_CALLS = frozenset({"matmul", "rmatmul", "bmm", "baddbmm", "einsum"})
VIEW_CALLS = frozenset(
    {"view", "reshape", "transpose", "permute", "contiguous", "clone", "expand", "unsqueeze", "squeeze", "flatten"}
    | {"unflatten", "to", "float", "type_as", "getitem", "movedim", "swapaxes", "repeat_interleave", "get"}
    | {"cat", "split", "chunk", "unbind"}
)
_SCALING_CALLS = frozenset({"mul", "rmul", "imul", "div", "truediv", "itruediv", "multiply", "divide"})
_SCORE_CALLS = VIEW_CALLS | _SCALING_CALLS
_SCORE_CALLS |= {"add", "radd", "iadd", "sub", "rsub", "isub", "masked_fill", "where", "clamp", "tanh", "detach"}
_WEIGHT_CALLS = VIEW_CALLS | _SCALING_CALLS | {"dropout", "masked_fill", "where", "nan_to_num", "detach"}
_Scaling = tuple[float, TorchCall]
_NORMALIZATION_CALLS = frozenset(
    {"normalize", "layer_norm", "rms_norm", "group_norm", "pow", "square", "mean", "sum", "norm", "vector_norm"}
    | {"linalg_vector_norm", "rsqrt", "sqrt", "clamp", "clamp_min"}
)  # of queries and keys, by a function or by hand
_MAX_DEPTH = 24  # calls between a product and its softmax, or a layer and the product


@dataclass(frozen=True)
class AttentionCall:
    """One attention of a pass. The tensors are those of the calls.

    ``scores`` is the call that multiplies queries and keys, ``mixture`` the one that weights the values; both are the
    same for ``F.scaled_dot_product_attention``. ``weights`` is the operand of the mixture that the softmax has made;
    None for torch's function, whose ``mask`` is given. ``factors`` are the constants that multiply queries, keys and
    scores; ``has_learned_factor`` is True if a parameter does, and ``enlarging`` is the call with the largest constant.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scores: TorchCall
    mixture: TorchCall
    softmax: TorchCall | None = None
    weights: Tensor | None = None
    mask: Tensor | None = None
    is_causal: bool = False
    factors: tuple[float, ...] = ()
    has_learned_factor: bool = False
    enlarging: TorchCall | None = None

    @property
    def width(self) -> int:
        """The number of products that each score sums."""
        query, key = self.scores.inputs[-2:]
        if self.is_by_torch or self.scores.name != "einsum":
            return self.query.shape[-1]
        operands, _, result = str(self.scores.args[0]).replace(" ", "").partition("->")
        first, _, second = operands.partition(",")
        if len(first) != query.dim() or len(second) != key.dim():
            return self.query.shape[-1]
        summed = [letter for letter in first if letter in second and letter not in result]
        return math.prod(query.shape[first.index(letter)] for letter in summed)

    @property
    def output(self) -> Tensor:
        """The weighted values."""
        return self.mixture.outputs[0]

    @property
    def is_by_torch(self) -> bool:
        """True for ``F.scaled_dot_product_attention``."""
        return self.weights is None


@dataclass
class CallGraph:
    """Which call has made and which calls take each tensor of a pass."""

    calls: Sequence[TorchCall]
    makers: dict[int, TorchCall] = field(default_factory=dict)
    takers: dict[int, list[TorchCall]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the calls by the identity of their tensors, which the calls keep alive."""
        for call in self.calls:
            for tensor in call.inputs:
                self.takers.setdefault(id(tensor), []).append(call)
            for tensor in call.outputs:
                if all(tensor is not other for other in call.inputs):
                    self.makers.setdefault(id(tensor), call)

    def sources(self, tensor: Tensor, names: frozenset[str]) -> Iterator[tuple[Tensor, TorchCall]]:
        """Yield a tensor and what it has been made of by calls with some names, each with the call that made it."""
        pending, visited = [(tensor, 0)], set[int]()
        while pending:
            current, depth = pending.pop(0)
            call = self.makers.get(id(current))
            if call is None or id(current) in visited or depth > _MAX_DEPTH:
                continue
            visited.add(id(current))
            yield current, call
            if call.name in names:
                pending += [(t, depth + 1) for t in call.inputs if not isinstance(t, nn.Parameter)]

    def find_attentions(self) -> Iterator[AttentionCall]:
        """Yield the attentions in the order of their calls."""
        for call in self.calls:
            if call.name == "scaled_dot_product_attention":
                yield self._fused_attention(call)
            elif call.name == "softmax" and (attention := self._attention_of_softmax(call)) is not None:
                yield attention

    def _fused_attention(self, call: TorchCall) -> AttentionCall:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        arguments = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
        query, key, value, scale = *(arguments[name] for name in names[:3]), arguments.get("scale")
        scalings, is_learned = self._find_scalings([query, key], VIEW_CALLS | _SCALING_CALLS)
        own = query.shape[-1] ** -0.5 if scale is None else float(scale)
        return AttentionCall(
            query, key, value, call, call, None, None, arguments.get("attn_mask"), bool(arguments.get("is_causal")),
            (*(factor for factor, _ in scalings), own), is_learned, _enlarging_call(scalings),
        )  # fmt: skip

    def _attention_of_softmax(self, softmax: TorchCall) -> AttentionCall | None:
        scores = self._product_behind(softmax.inputs[0])
        mixture = self._product_of_weights(softmax.outputs[0])
        if scores is None or mixture is None:
            return None
        product, weights = mixture
        query, key = scores.inputs[-2:]
        value = next((t for t in product.inputs[-2:] if t is not weights), weights)
        of_scores, is_learned = self._find_scalings([softmax.inputs[0]], _SCORE_CALLS)
        of_operands, also_learned = self._find_scalings([query, key], VIEW_CALLS | _SCALING_CALLS)
        scalings = [*of_operands, *of_scores]
        return AttentionCall(
            query, key, value, scores, product, softmax, weights,
            factors=tuple(factor for factor, _ in scalings), has_learned_factor=is_learned or also_learned,
            enlarging=_enlarging_call(scalings),
        )  # fmt: skip

    def find_query_weights(self, attention: AttentionCall) -> list[Tensor]:
        """Return the weight matrices of the layer that makes the queries."""
        for _, call in self.sources(attention.query, VIEW_CALLS | _SCALING_CALLS | {"add", "sub", "neg"}):
            weights: list[Tensor] = [t for t in call.inputs if isinstance(t, nn.Parameter) and t.dim() > 1]
            if weights:
                return weights
        return []

    def find_detached_part(self, attention: AttentionCall) -> TorchCall | None:
        """Return a call that detaches what becomes the queries, keys or values, if its layer makes others of them too.

        A layer of which nothing else is used gets no gradient at all, which its parameters show.
        """
        names = VIEW_CALLS | _SCALING_CALLS | _NORMALIZATION_CALLS | {"detach", "add", "sub", "neg"}
        behind = [list(self.sources(part, names)) for part in (attention.query, attention.key, attention.value)]
        layers = [{id(call) for _, call in calls if _has_parameter(call)} for calls in behind]
        for position, calls in enumerate(behind):
            others = set().union(*(layer for k, layer in enumerate(layers) if k != position))
            for _, call in calls:
                is_cut = call.name == "detach" and call.inputs[0].requires_grad and not call.outputs[0].requires_grad
                if is_cut and any(
                    _has_parameter(c) and id(c) in others for _, c in self.sources(call.inputs[0], names)
                ):
                    return call
        return None

    def _product_behind(self, scores: Tensor) -> TorchCall | None:
        """Return the product of two activations that scores come from."""
        for _, call in self.sources(scores, _SCORE_CALLS):
            operands = call.inputs[-2:]
            if call.name in PRODUCT_CALLS and len(operands) == 2:
                is_activation = [not isinstance(t, nn.Parameter) and id(t) in self.makers for t in operands]
                return call if all(is_activation) else None
        return None

    def _product_of_weights(self, weights: Tensor) -> tuple[TorchCall, Tensor] | None:
        """Return the product that takes the result of a softmax, with its operand."""
        pending, visited = [weights], set[int]()
        while pending:
            current = pending.pop(0)
            if id(current) in visited:
                continue
            visited.add(id(current))
            for call in self.takers.get(id(current), ()):
                if call.name in PRODUCT_CALLS and len(call.inputs) >= 2:
                    return call, current
                if call.name in _WEIGHT_CALLS:
                    pending += call.outputs
        return None

    def _find_scalings(self, tensors: list[Tensor], names: frozenset[str]) -> tuple[list[_Scaling], bool]:
        """Return the constants that have multiplied tensors, with their calls, and whether a parameter has."""
        scalings, is_learned = list[_Scaling](), False
        for tensor in tensors:
            for _, call in self.sources(tensor, names):
                if call.name in PRODUCT_CALLS:
                    break
                if call.name in _SCALING_CALLS:
                    factor = _read_factor(call)
                    is_learned |= factor is None and sum(t.requires_grad for t in call.inputs) > 1
                    scalings += [(factor, call)] if factor is not None else []
        return scalings, is_learned


def _enlarging_call(scalings: list[_Scaling]) -> TorchCall | None:
    """Return the call that multiplies by the largest constant; None if none is larger than one."""
    factor, call = max(((abs(factor), call) for factor, call in scalings), key=itemgetter(0), default=(1.0, None))
    return call if factor > 1 else None


def _has_parameter(call: TorchCall) -> bool:
    """Return whether a call is one of a layer."""
    return any(isinstance(tensor, nn.Parameter) for tensor in call.inputs)


def _read_factor(call: TorchCall) -> float | None:
    """Return the constant of a multiplication or division; None if it is a parameter, or no constant."""
    operands = [a for a in (*call.args, *call.kwargs.values()) if isinstance(a, (int, float, Tensor))][:2]
    constants = [a for a in operands if not isinstance(a, Tensor) or (a.numel() == 1 and not a.requires_grad)]
    if len(operands) != 2 or len(constants) != 1 or float(constants[0]) == 0.0:
        return None
    value = float(constants[0])
    return value if "div" not in call.name else 1.0 / value if constants[0] is operands[1] else None


@dataclass(frozen=True)
class _MixtureAxes:
    """Axes of a mixture, if known: the keys in the weights and in the values, and the heads in the result."""

    summed: int | None
    heads: int | None
    keys: int | None = -2


def mixture_axes(attention: AttentionCall, samples: int) -> _MixtureAxes:
    """Return the axes of the product of weights and values."""
    call, output = attention.mixture, attention.output
    if attention.weights is not None and call.name == "einsum":
        return _einsum_axes(attention, samples)
    heads = 1 if output.dim() == 4 and output.shape[0] == samples and output.shape[1] > 1 else None
    if attention.weights is None:
        return _MixtureAxes(None, heads)
    dimensions = attention.weights.dim()
    is_first = call.inputs[-2] is attention.weights
    return _MixtureAxes(dimensions - 1 if is_first else dimensions - 2, heads)


def _einsum_axes(attention: AttentionCall, samples: int) -> _MixtureAxes:
    call, weights, output = attention.mixture, attention.weights, attention.output
    equation = str(call.args[0]).replace(" ", "")
    operands, arrow, result = equation.partition("->")
    letters = operands.split(",")
    if not arrow or "." in equation or len(letters) != 2 or weights is None:
        return _MixtureAxes(None, None, None)
    position = 0 if call.inputs[-2] is weights else 1
    own, other = letters[position], letters[1 - position]
    summed = [letter for letter in own if letter in other and letter not in result]
    if len(summed) != 1:
        return _MixtureAxes(None, None, None)
    shared = [letter for letter in own if letter in other and letter in result]
    heads = [result.index(letter) for letter in shared if output.shape[result.index(letter)] > 1 and letter != own[0]]
    is_clear = len(heads) == 1 and output.shape[0] == samples
    return _MixtureAxes(own.index(summed[0]), heads[0] if is_clear else None, other.index(summed[0]))


def softmax_axis(call: TorchCall) -> int | None:
    """Return the axis of a softmax; None if it is not given."""
    try:
        axis = inspect.signature(torch.nn.functional.softmax).bind(*call.args, **call.kwargs).arguments.get("dim")
    except TypeError:
        axis = call.kwargs.get("dim")
    return axis % call.outputs[0].dim() if isinstance(axis, int) else None
