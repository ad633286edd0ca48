"""Activations of one layer: feature maps, and statistics of their channels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import ModelInputs
from nbdebug.inference.model_runner import ModelRunner, get_model, get_model_runner
from nbdebug.internals.class_similarity import ComparisonSamples, get_comparison_samples
from nbdebug.internals.layers import (
    CaptureSide,
    LayerCall,
    LayerCalls,
    LayerCapture,
    Layout,
    get_layout,
    list_layer_calls,
)
from nbdebug.result import TextRepr
from nbdebug.validation import validate_int

_Array = NDArray[Any]
_ChannelMark = Literal["", "dead", "silent", "saturated"]
_SATURATED_SHARE = 0.9  # share of values at a bound from which a channel counts as saturated
_BOUND_SHARE = 0.01  # share of the range that counts as its bound
_MARK_DESCRIPTIONS = {
    "dead": "zero on the whole background",
    "silent": "zero for this sample",
    "saturated": "at a bound of its range almost everywhere",
}
_ActivationArray = NDArray[Any]


@dataclass(frozen=True)
class _ChannelStatistics:
    """Mean of each channel over positions per background sample, samples × channels, and its largest magnitude.

    ``labels`` are the classes of the samples, if known.
    """

    means: _Array = field(repr=False)
    max_abs: _Array = field(repr=False)
    labels: _Array | None = field(default=None, repr=False)

    def for_class(self, class_index: int | None = None) -> tuple[_Array, _Array, int]:
        """Return mean, standard deviation and number of the samples of a class, or of all."""
        return class_statistics(self.means, self.labels, class_index)


def class_statistics(values: _Array, labels: _Array | None, class_index: int | None) -> tuple[_Array, _Array, int]:
    """Return mean, standard deviation and number of samples (first axis) of a class, or of all."""
    selected = values if class_index is None or labels is None else values[labels == class_index]
    count, missing = len(selected), np.full(values.shape[1:], np.nan)
    return (selected.mean(0) if count else missing), (selected.std(0, ddof=1) if count > 1 else missing), count


def _channel_statistics(chunks: Iterable[Tensor], labels: Any = None) -> _ChannelStatistics:
    """Compute channel statistics from chunks of samples × channels × positions."""
    means, max_abs = [], torch.zeros(0)
    for chunk in chunks:
        means.append(chunk.mean(2).double().cpu())
        chunk_max = chunk.abs().amax((0, 2)).cpu()
        max_abs = chunk_max if not len(max_abs) else torch.maximum(max_abs, chunk_max)
    all_means = torch.cat(means).numpy()
    classes = None if labels is None else np.asarray(torch.as_tensor(labels).cpu()).reshape(-1)[: len(all_means)]
    return _ChannelStatistics(all_means, max_abs.numpy(), classes)


def _to_channels(values: Tensor, channels_last: bool) -> Tensor:
    """Reshape an activation, samples first, to samples × channels × positions."""
    if values.dim() == 1:
        return values[:, None, None]
    if values.dim() == 2:
        return values[:, :, None]
    return (values.movedim(-1, 1) if channels_last else values).flatten(2)


def _activation_bounds(module: nn.Module) -> tuple[float | None, float] | None:
    """Return the bounds of a bounded activation function; the lower bound is None if it is a plain zero."""
    if isinstance(module, (nn.Sigmoid, nn.Hardsigmoid)):
        return 0.0, 1.0
    if isinstance(module, nn.ReLU6):
        return None, 6.0
    if isinstance(module, nn.Hardtanh):
        return module.min_val, module.max_val
    return (-1.0, 1.0) if isinstance(module, (nn.Tanh, nn.Softsign)) else None


def _mark_channels(
    values: Tensor, bounds: tuple[float | None, float] | None, max_abs: _Array | None
) -> list[list[_ChannelMark]]:
    """Classify each channel of each sample, for samples × channels × positions."""
    silent = (values == 0).all(2).cpu().numpy()
    dead = np.zeros_like(silent) if max_abs is None else silent & (max_abs == 0)
    saturated = np.zeros_like(silent)
    if bounds is not None:
        low, high = bounds
        tolerance = _BOUND_SHARE * (high - (low or 0.0))
        is_at_bound = values >= high - tolerance
        if low is not None:
            is_at_bound |= values <= low + tolerance
        saturated = (is_at_bound.float().mean(2) >= _SATURATED_SHARE).cpu().numpy()
    names = np.where(dead, "dead", np.where(silent, "silent", np.where(saturated, "saturated", "")))
    return names.tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Features(TextRepr):
    """Activations of one layer call: ``values`` are samples × …, in the layout of the layer.

    ``channels`` is the channel axis of ``values``, None for a single number. ``marks`` classifies the channels of each
    sample as "dead", "silent" or "saturated". ``channel_statistics`` holds the channel statistics of the background.
    ``pieces`` are the shapes of all tensors that the layer returns; ``piece`` is the one in ``values``.
    """

    layer: str
    kind: str
    side: CaptureSide
    call: int
    piece: str
    pieces: dict[str, tuple[int, ...]]
    layout: Layout
    channels: int | None
    values: _ActivationArray = field(repr=False)
    marks: list[list[_ChannelMark]] = field(repr=False)
    channel_statistics: _ChannelStatistics | None = field(repr=False)
    layer_calls: LayerCalls = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def maps(self) -> _ActivationArray:
        """The activations as samples × channels × …; a single number is one channel."""
        if self.channels is None:
            return self.values[:, None]
        return np.moveaxis(self.values, self.channels, 1)

    def channel_summary(self, row: int) -> list[str]:
        """Describe the dead, silent and saturated channels of a sample."""
        channel_count = len(self.marks[row])
        return [
            f"{self.marks[row].count(mark)} of {channel_count} channels are {mark}: {description}"
            for mark, description in _MARK_DESCRIPTIONS.items()
            if mark in self.marks[row]
        ]

    def to_text(self) -> str:
        """Return the result as plain text."""
        shape = "×".join(map(str, self.values.shape[1:])) or "a single number"
        head = f"nbdebug features: {self.side} of {self.layer or 'the model'} ({self.kind}), {shape} per sample"
        return "\n".join([head, *(f"  {line}" for line in (*self.channel_summary(0), *self.notes))])


def features(
    setup_or_model: Any,
    inputs: Any,
    layer: str | nn.Module | None = None,
    *,
    side: CaptureSide = "output",
    call: int = 0,
    piece: str | None = None,
    background: Any = None,
    labels: Any = None,
) -> Features:
    """Return the output of a layer for the samples, or its input with ``side="input"``; leaves the model unchanged.

    Without ``layer``, uses the last layer with feature maps or a sequence, else the last but one. ``call`` counts the
    calls of a module from 0; ``piece`` selects one of several tensors, such as ``[1][0]``. With a ``background``, a
    channel is dead only if it is zero on all of it; ``labels`` are the classes of the background. Raises SetupError for
    an unknown layer, or one that is not called.
    """
    if side not in ("output", "input"):
        raise SetupError(f"side is {side!r}; expected output or input. Choose one.")
    call = validate_int("call", call, 0)
    runner = get_model_runner(setup_or_model)
    model_inputs = runner.inputs(inputs)
    name = None if layer is None else _find_layer_name(setup_or_model, runner, layer)
    comparison = (
        None if background is None else get_comparison_samples(setup_or_model, runner, background, labels, model_inputs)
    )
    with runner.open():
        calls = list_layer_calls(runner, model_inputs)
        capture = LayerCapture(runner, _select_call(calls, name, call), side)
        pieces = capture.sample_shapes(model_inputs)
        tensor_path = _select_tensor(pieces, piece, capture.layer)
        return _build_features(
            capture,
            model_inputs,
            tensor_path,
            pieces,
            _background_statistics(capture, comparison, tensor_path, pieces[tensor_path]),
            calls,
        )


def _background_statistics(
    capture: LayerCapture, comparison: ComparisonSamples | None, tensor_path: str, shape: tuple[int, ...]
) -> _ChannelStatistics | None:
    """Return the channel statistics of a tensor on the background."""
    if comparison is None:
        return None
    channels_last = capture.has_channels_last(shape)
    chunks = (
        _to_channels(capture.capture_tensor(chunk, tensor_path, shape), channels_last)
        for chunk in comparison.iterate_chunks()
    )
    return _channel_statistics(chunks, comparison.labels)


def _build_features(
    capture: LayerCapture,
    inputs: ModelInputs,
    tensor_path: str,
    pieces: dict[str, tuple[int, ...]],
    statistics: _ChannelStatistics | None,
    calls: LayerCalls,
) -> Features:
    """Build the result for one tensor of the layer."""
    layer, shape = capture.layer, pieces[tensor_path]
    channels_last = capture.has_channels_last(shape)
    values = capture.capture_tensor(inputs, tensor_path, shape)
    bounds = _activation_bounds(capture.module) if capture.side == "output" else None
    channel_marks = _mark_channels(
        _to_channels(values, channels_last), bounds, None if statistics is None else statistics.max_abs
    )
    return Features(
        layer.name, layer.kind, capture.side, layer.call, tensor_path, pieces, get_layout(shape),
        None if not shape else len(shape) if channels_last else 1, values.cpu().numpy(), channel_marks, statistics,
        calls, capture.runner.notes,
    )  # fmt: skip


def _find_layer_name(setup_or_model: Any, runner: ModelRunner, layer: str | nn.Module) -> str:
    """Return the name of a layer, which may belong to the original model instead of the copy that runs."""
    if isinstance(layer, nn.Module):
        layer_name = next((name for name, module in get_model(setup_or_model).named_modules() if module is layer), None)
        layer = layer_name if layer_name is not None else layer
    return runner.layer_name(layer)


def _select_call(all_calls: LayerCalls, name: str | None, call: int) -> LayerCall:
    """Return the call of a layer; raise SetupError if it does not exist."""
    if name is None:
        default = default_layer(all_calls)
        if not call:
            return default
        name = default.name
    calls = all_calls.calls_of(name)
    if not calls:
        examples = ", ".join(item.name for item in all_calls.distinct[-3:])
        raise SetupError(f"layer {name!r} is never called; expected a layer such as {examples}. Choose one.")
    if not 0 <= call < len(calls):
        raise SetupError(f"call is {call}; expected 0 to {len(calls) - 1}, the calls of {name!r}. Choose one.")
    if not calls[call].shapes:
        raise SetupError(f"layer {name!r} returns no tensor with a sample axis; expected one. Choose another layer.")
    return calls[call]


def default_layer(all_calls: LayerCalls) -> LayerCall:
    """Return the last layer with several positions, else the last but one; raise SetupError without any."""
    distinct = all_calls.distinct
    if not distinct:
        raise SetupError("no layer returns a tensor with a sample axis; expected one. Pass a model with layers.")
    spatial = [
        item for item in distinct if item.layout in ("maps", "volumes", "sequence") and _position_count(item) > 1
    ]
    return spatial[-1] if spatial else distinct[max(len(distinct) - 2, 0)]


def _position_count(layer: LayerCall) -> int:
    """Return the number of positions of an output with channels."""
    shape = layer.shape or (1,)
    return int(np.prod(shape[:-1] if layer.channels_last else shape[1:]))


def _select_tensor(pieces: dict[str, tuple[int, ...]], piece: str | None, layer: LayerCall) -> str:
    """Return the path of one of the tensors; raise SetupError for an unknown one."""
    tensor_path = next(iter(pieces), "") if piece is None else piece
    if tensor_path not in pieces:
        tensor_paths = ", ".join(map(repr, pieces)) or "none with samples"
        raise SetupError(
            f"piece is {tensor_path!r}; expected one of {tensor_paths}, the tensors of {layer.title}. Choose one."
        )
    return tensor_path
