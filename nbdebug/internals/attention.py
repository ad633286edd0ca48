"""Attention weights of each head, recorded during a run, and attention rollout."""

from __future__ import annotations

import inspect
import re
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import SetupError
from nbdebug.formatting import join_names
from nbdebug.inference.model_runner import get_model_runner
from nbdebug.internals.layers import call_title
from nbdebug.result import TextRepr

MAX_WEIGHTS = 2**26  # maximum number of weights per call (256 MiB)
_MULTI_HEAD_SIGNATURE = inspect.signature(F.multi_head_attention_forward)
_AttentionKind = Literal["multi-head attention", "dot-product attention", "softmax"]
_MATRIX_PRODUCTS = ("matmul", "bmm", "__matmul__", "__rmatmul__", "einsum", "baddbmm")
_PRESERVING_OPERATIONS = (
    "dropout", "to", "type_as", "float", "half", "bfloat16", "unsqueeze", "view", "reshape", "contiguous", "transpose",
    "nan_to_num", "clone", "masked_fill", "where", "__mul__", "mul", "permute",
)  # fmt: skip
_SUM_TOLERANCE = 1e-3  # tolerance for the sum of a row of weights
_Array = NDArray[Any]
ATTENTION_CAVEAT = (
    "Attention shows which positions a head reads, not why the model decides: very different weights can give the same "
    "output (Jain & Wallace 2019, arXiv:1902.10186)."
)


def _dot_product_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return the weights of ``F.scaled_dot_product_attention``, … × queries × keys, without dropout.

    Uses the formula of its documentation (pytorch.org, torch.nn.functional.scaled_dot_product_attention). The weights
    of a fully masked query are zero.
    """
    _check_size(query.shape[:-1].numel() * key.shape[-2])
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query.float() * factor) @ key.float().transpose(-2, -1)
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    if attn_mask is not None:
        is_boolean = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, float("-inf")) if is_boolean else scores + attn_mask.float()
    return scores.softmax(-1).nan_to_num(0.0)


def _check_size(count: int) -> None:
    if count > MAX_WEIGHTS:
        raise SetupError(f"it has {count:,} weights; expected at most {MAX_WEIGHTS:,}. Use a shorter sample")


def _multi_head_weights(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, bool]:
    """Return the weights of ``F.multi_head_attention_forward``, and whether it is self-attention.

    The weights are samples × heads × queries × keys.
    """
    bound = _MULTI_HEAD_SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = bound.arguments
    is_self_attention = arguments["query"] is arguments["key"]
    _check_size(arguments["query"].shape[:-1].numel() * arguments["key"].shape[0] * arguments["num_heads"])
    arguments.update(need_weights=True, average_attn_weights=False, training=False)
    if arguments["is_causal"] and arguments["attn_mask"] is None:
        length = arguments["query"].shape[0], arguments["key"].shape[0]
        arguments["attn_mask"] = torch.ones(length, dtype=torch.bool, device=arguments["query"].device).triu(1)
    weights = F.multi_head_attention_forward(*bound.args, **bound.kwargs)[1]
    assert weights is not None  # because need_weights=True
    return (weights[None] if weights.dim() == 3 else weights).nan_to_num(0.0), is_self_attention


@dataclass(frozen=True)
class _RecordedAttention:
    """The attention weights of one call, its layer, and whether it is self-attention, if known."""

    layer: str
    kind: _AttentionKind
    weights: Tensor
    is_self_attention: bool | None = None


class _AttentionRecorder(TorchFunctionMode):
    """Records the arguments of attention functions without changing their results.

    A softmax along the last axis counts as attention once it is multiplied as a matrix.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: list[_RecordedAttention | None] = []
        self.failures: list[str] = []
        self.module_stack = ModuleStack()
        self.tracked: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self.pending: dict[int, _RecordedAttention] = {}

    @property
    def layer(self) -> str:
        """The innermost layer that is running."""
        return self.module_stack.innermost or ""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "multi_head_attention_forward":
            self._record("multi-head attention", lambda: _multi_head_weights(args, kwargs))
        elif name == "scaled_dot_product_attention":
            self._record("dot-product attention", lambda: (_dot_product_weights(*args, **kwargs), None))
        elif self.tracked:
            self._confirm(name, args, kwargs)
        output = func(*args, **kwargs)
        if name == "softmax":
            self._track(output)
        elif self.tracked and name in _PRESERVING_OPERATIONS and isinstance(output, Tensor):
            self._propagate(args, output)
        return output

    def _record(self, kind: _AttentionKind, compute_weights: Any) -> None:
        """Store the weights of one call, or note why they are not available."""
        try:
            attention_weights, is_self_attention = compute_weights()
        except Exception as error:  # recording must never break the run
            self.failures.append(f"{self.layer or 'the model'} ({type(error).__name__}: {error})")
            return
        self.records.append(_RecordedAttention(self.layer, kind, attention_weights.detach(), is_self_attention))

    def _track(self, output: Any) -> None:
        """Track a softmax that may be attention."""
        if not isinstance(output, Tensor) or not 2 <= output.dim() <= 4 or output.shape[-1] < 2:
            return
        if output.numel() > MAX_WEIGHTS or not _sums_to_one(output):
            return
        record_index = len(self.records)
        self.records.append(None)
        self.pending[record_index] = _RecordedAttention(self.layer, "softmax", output.detach().clone())
        self.tracked[id(output)] = weakref.ref(output), record_index

    def _propagate(self, args: tuple[Any, ...], output: Tensor) -> None:
        """Track a softmax through operations that preserve it."""
        if (record_index := self._tracked_index(args[:1])) is not None:
            self.tracked[id(output)] = weakref.ref(output), record_index

    def _confirm(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Store a tracked softmax that is multiplied as a matrix."""
        if name in _MATRIX_PRODUCTS and (record_index := self._tracked_index((*args, *kwargs.values()))) is not None:
            self.records[record_index] = self.pending.pop(record_index, self.records[record_index])

    def _tracked_index(self, arguments: Any) -> int | None:
        """Return the index of the tracked softmax among the arguments."""
        for argument in arguments:
            if isinstance(argument, (tuple, list)) and (nested_index := self._tracked_index(argument)) is not None:
                return nested_index
            reference, record_index = self.tracked.get(id(argument), (None, 0))
            if reference is not None and reference() is argument:
                return record_index
        return None


def _sums_to_one(output: Tensor) -> bool:
    """Check that the rows sum to 1, apart from fully masked rows."""
    sums = output.float().sum(-1)
    return bool((((sums - 1).abs() < _SUM_TOLERANCE) | (sums == 0) | sums.isnan()).all())


@contextmanager
def recording_attention(model: nn.Module) -> Iterator[_AttentionRecorder]:
    """Record the attention of a model for the duration of a block."""
    recorder = _AttentionRecorder()
    with recorder.module_stack.track(model), recorder:
        yield recorder


@dataclass(frozen=True)
class LayerAttention:
    """Attention of one layer call: ``weights`` are samples × heads × queries × keys, and each row sums to 1.

    ``kind`` "softmax" is a softmax that is multiplied as a matrix, which is probably attention. ``windows`` is the
    number of windows per sample; the heads of each window are adjacent.
    """

    layer: str
    kind: _AttentionKind
    weights: _Array = field(repr=False)
    call: int = 0
    windows: int = 1
    is_self_attention: bool | None = None

    @property
    def title(self) -> str:
        """The layer, with the number of the call unless it is the first."""
        return call_title(self.layer, self.call)

    @property
    def head_count(self) -> int:
        """Number of attention maps per sample."""
        return int(self.weights.shape[1])

    @property
    def may_be_self_attention(self) -> bool:
        """Check for probable self-attention: as many keys as queries, and no sign of cross-attention."""
        is_square = self.weights.shape[2] == self.weights.shape[3]
        is_cross_attention = any(word in self.layer.lower() for word in ("cross", "encoder_attn", "multihead_attn"))
        return (
            is_square
            and self.windows == 1
            and (self.is_self_attention if self.is_self_attention is not None else not is_cross_attention)
        )

    @property
    def unused_keys(self) -> _Array:
        """Keys that no query of any head attends to, samples × keys."""
        return np.asarray((self.weights == 0).all((1, 2)))

    @property
    def entropy(self) -> _Array:
        """Normalized entropy of each head, samples × heads: 0 for a single key, 1 for uniform attention.

        The mean over queries that may attend to more than one key; NaN if there is none.
        """
        weights = self.weights.astype(np.float64)
        key_count = (weights > 0).sum(-1)
        nats = -np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)), -1)
        is_counted = key_count > 1
        if self.weights.shape[2] == self.weights.shape[3]:
            is_counted &= ~self.unused_keys[:, None, :]
        share = np.where(is_counted, nats / np.log(np.maximum(key_count, 2)), 0.0)
        total = is_counted.sum(-1)
        return np.where(total > 0, share.sum(-1) / np.maximum(total, 1), np.nan)


@dataclass(frozen=True)
class Attention(TextRepr):
    """Attention of all layers in call order, and notes on attention that was not recorded."""

    layers: tuple[LayerAttention, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.layers)

    def groups(self) -> list[list[LayerAttention]]:
        """Group self-attention layers of one stack, by layer names with numbers ignored."""
        by_name: dict[tuple[str, int], list[LayerAttention]] = {}
        for item in self.layers:
            if item.may_be_self_attention:
                by_name.setdefault((re.sub(r"\d+", "*", item.layer), item.weights.shape[2]), []).append(item)
        groups = list(by_name.values())
        is_one_stack = len({item[0].weights.shape[2] for item in groups}) == 1
        return [[item[0] for item in groups]] if is_one_stack and all(len(item) == 1 for item in groups) else groups

    def rollout(self, group: int | None = None) -> tuple[_Array, list[str]] | None:
        """Return rollout, samples × queries × tokens, and the titles of its layers; None without self-attention.

        Averages the heads, mixes each layer equally with the identity for the residual connection, and multiplies the
        layers of one of the ``groups()``, by default the longest (Abnar & Zuidema 2020, arXiv:2005.00928).
        """
        groups = self.groups()
        if not groups:
            return None
        group_layers = max(groups, key=len) if group is None else groups[group]
        size = group_layers[0].weights.shape[2]
        product = np.eye(size)
        for layer in group_layers:
            with_residual = layer.weights.astype(np.float64).mean(1) / 2 + np.eye(size) / 2
            product = (with_residual / with_residual.sum(-1, keepdims=True)) @ product
        return product, [layer.title for layer in group_layers]

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [
            f"  {item.title}: {item.head_count} heads, {item.weights.shape[2]} queries × {item.weights.shape[3]} keys, "
            f"entropy {', '.join(f'{value:.2f}' for value in item.entropy[0][:12])}"
            for item in self.layers
        ]
        title = "nbdebug attention" if lines else "nbdebug attention: the model calls no attention that can be recorded"
        return "\n".join([title, *lines, *(f"  {item}" for item in (*self.notes, ATTENTION_CAVEAT))])


def attention(setup_or_model: Any, inputs: Any) -> Attention:
    """Record the attention of every head of every layer for the samples, without changing the model's output.

    Supports ``nn.MultiheadAttention``, also in Transformer layers, ``F.scaled_dot_product_attention`` in any module,
    and softmax outputs that are multiplied as matrices, so both attention implementations of transformers. Empty if the
    model calls none of them. Raises SetupError for a model without Python layers.
    """
    runner = get_model_runner(setup_or_model)
    model_inputs = runner.inputs(inputs)
    with runner.open(), recording_attention(runner.model) as recorder:
        runner.run(model_inputs)
    recorded = [item for item in recorder.records if item is not None]
    layers = [
        item for item in (_to_layer_attention(record, model_inputs.size) for record in recorded) if item is not None
    ]
    return Attention(_number_calls(layers), (*runner.notes, *_attention_notes(layers, recorder.failures)))


def _to_layer_attention(recorded: _RecordedAttention, size: int) -> LayerAttention | None:
    """Reshape weights to samples × heads × queries × keys; None if samples cannot be identified."""
    weights, windows = recorded.weights, 1
    if weights.dim() == 2 and len(weights) == size:
        weights = weights[:, None, None]
    elif weights.dim() == 3:
        weights = weights[:, None] if len(weights) == size else _unfold_heads(weights, size)
    elif weights.dim() == 4 and len(weights) != size and len(weights) % size == 0:
        windows = len(weights) // size
        weights = weights.reshape(size, windows * weights.shape[1], *weights.shape[2:])
    elif weights.dim() > 4:
        weights = weights.flatten(1, -3)
    if weights.dim() != 4 or len(weights) != size:
        return None
    array = weights.float().nan_to_num(0.0).cpu().numpy()
    return LayerAttention(recorded.layer, recorded.kind, array, 0, windows, recorded.is_self_attention)


def _unfold_heads(weights: Tensor, size: int) -> Tensor:
    """Split heads that were folded into the sample axis."""
    return weights.reshape(size, len(weights) // size, *weights.shape[1:]) if len(weights) % size == 0 else weights


def _number_calls(layers: Sequence[LayerAttention]) -> tuple[LayerAttention, ...]:
    """Number the calls of each layer."""
    calls: Counter[str] = Counter()
    counted = []
    for layer in layers:
        counted.append(replace(layer, call=calls[layer.layer]))
        calls[layer.layer] += 1
    return tuple(counted)


def _attention_notes(layers: list[LayerAttention], failures: list[str]) -> list[str]:
    notes = []
    if softmaxes := [layer.title for layer in layers if layer.kind == "softmax"]:
        notes.append(f"Probably attention (a softmax multiplied as a matrix): {join_names(softmaxes, 5)}.")
    if windowed := [layer.title for layer in layers if layer.windows > 1]:
        notes.append(f"Attends within windows only, with separate heads per window: {', '.join(windowed[:5])}.")
    if failures:
        notes.append(f"Could not be recorded: {'; '.join(failures[:3])}.")
    return notes
