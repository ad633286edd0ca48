"""Layer calls in execution order, layouts of their tensors, and capturing one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules import batchnorm, conv, instancenorm, pooling
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from nbdebug.exceptions import SetupError
from nbdebug.formatting import join_names
from nbdebug.hooks.module_hooks import hooked
from nbdebug.inference.inputs import ModelInputs
from nbdebug.inference.model_runner import ModelRunner, get_model_runner
from nbdebug.tensors.pytree import tree_leaves

Layout = Literal["number", "units", "sequence", "maps", "volumes", "other"]
_LAYOUT_BY_AXES: tuple[Layout, ...] = (
    "number",
    "units",
    "sequence",
    "maps",
    "volumes",
)  # by number of axes of a sample
_CHANNELS_FIRST_LAYERS = (
    conv._ConvNd, batchnorm._BatchNorm, instancenorm._InstanceNorm, nn.GroupNorm, pooling._MaxPoolNd,
    pooling._AvgPoolNd, pooling._AdaptiveAvgPoolNd, pooling._AdaptiveMaxPoolNd,
)  # fmt: skip
_CHANNELS_LAST_LAYERS = (
    nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.MultiheadAttention, nn.RNNBase, nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.TransformerDecoder,
)  # fmt: skip
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)  # containers are never called
CaptureSide = Literal["output", "input"]


def get_layout(shape: Sequence[int]) -> Layout:
    """Return the layout of a sample of this shape."""
    return _LAYOUT_BY_AXES[len(shape)] if len(shape) < len(_LAYOUT_BY_AXES) else "other"


def _has_channels_last(module: nn.Module, shape: Sequence[int], known_layouts: dict[tuple[int, ...], bool]) -> bool:
    """Check whether the last axis holds the channels.

    Elementwise layers such as activation functions keep the layout of the last layer with the same shape
    (``known_layouts``). Without such a layer, sequences have channels last, and maps do if their first two sides are
    equal.
    """
    if isinstance(module, _CHANNELS_FIRST_LAYERS):
        return False
    if isinstance(module, _CHANNELS_LAST_LAYERS):
        return True
    if (previous := known_layouts.get(tuple(shape))) is not None:
        return previous
    return len(shape) == 2 or (len(shape) == 3 and shape[0] == shape[1] != shape[2])


def output_tensors(output: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor of an output with its path, such as ``[1][0]`` or ``.logits``; pads packed sequences."""
    for path, leaf in tree_leaves(output):
        if isinstance(leaf, PackedSequence):
            leaf = pad_packed_sequence(leaf, batch_first=True)[0]
        if isinstance(leaf, Tensor):
            yield "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path), leaf


def to_dense_real(tensor: Tensor, copy: bool = True) -> Tensor:
    """Convert any tensor to dense real numbers: padded, dequantized, magnitudes of complex values."""
    values = tensor.detach()
    if values.is_nested:
        values = torch.nested.to_padded_tensor(values, 0.0)
    if values.layout is not torch.strided:
        values = values.to_dense()
    if values.is_quantized:
        values = values.dequantize()
    if values.is_complex():
        values = values.abs()
    return values.to(torch.float64 if values.dtype is torch.float64 else torch.float32, copy=copy)


def move_samples_first(tensor: Tensor, count: int, shape: Sequence[int] | None = None) -> Tensor | None:
    """Move the sample axis to the front; None if it cannot be identified.

    Samples are along the first or second axis, or folded with positions or windows along the first. With several
    samples, ``shape``, the shape of a single sample, decides; -1 in it matches any length.
    """
    may_be_folded = shape is None or -1 not in shape  # else positions could be mistaken for samples
    candidates = (
        arrangement
        for arrangement in _arrangements(tensor, count, may_be_folded)
        if shape is None or _shape_matches(arrangement.shape[1:], shape)
    )
    return next(candidates, None)


def _shape_matches(shape: Sequence[int], expected: Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(b in (a, -1) for a, b in zip(shape, expected, strict=True))


def _arrangements(tensor: Tensor, count: int, may_be_folded: bool) -> Iterator[Tensor]:
    """Yield possible arrangements of the samples, the most likely first."""
    shape = tensor.shape
    if tensor.dim() and shape[0] == count:
        yield tensor
    if tensor.dim() > 1 and shape[1] == count:
        yield tensor.movedim(1, 0)
    if may_be_folded and tensor.dim() and shape[0] > count and shape[0] % count == 0:
        yield tensor.reshape(count, shape[0] // count, *shape[1:])
    if count == 1:
        yield tensor[None]


@dataclass(frozen=True)
class LayerCall:
    """One call of one module: its output tensors, as per-sample shapes.

    ``same_output_as`` is the layer that returned the same tensor before, as a Sequential returns the output of its last
    layer.
    """

    name: str
    kind: str
    call: int = 0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    channels_last: bool = False
    same_output_as: str | None = None

    @property
    def title(self) -> str:
        """The name, with the number of the call unless it is the first."""
        return call_title(self.name, self.call)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The per-sample shape of the first tensor; None if no tensor has a sample axis."""
        return next(iter(self.shapes.values()), None)

    @property
    def layout(self) -> Layout:
        """The layout of the first tensor."""
        return "other" if self.shape is None else get_layout(self.shape)


@dataclass(frozen=True)
class LayerCalls:
    """All calls in the order in which they return, and the modules that are not called."""

    calls: tuple[LayerCall, ...]
    uncalled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def distinct(self) -> tuple[LayerCall, ...]:
        """The calls that return new tensors."""
        return tuple(item for item in self.calls if item.same_output_as is None and item.shape is not None)

    def calls_of(self, name: str) -> tuple[LayerCall, ...]:
        """Return the calls of one module."""
        return tuple(item for item in self.calls if item.name == name)

    def __str__(self) -> str:
        lines = [f"  {item.title}  {item.kind}  {' '.join(map(str, item.shapes.values()))}" for item in self.distinct]
        return "\n".join(["nbdebug layers, in execution order", *lines, *self.notes])


def call_title(name: str, call: int) -> str:
    """Describe a layer call, with its number unless it is the first."""
    return (name or "the model") + (f" (call {call + 1})" if call else "")


def layer_calls(setup_or_model: Any, inputs: Any) -> LayerCalls:
    """List the layers of a model in the order in which they run, with their output shapes.

    Raises SetupError for a model without Python layers.
    """
    runner = get_model_runner(setup_or_model)
    model_inputs = runner.inputs(inputs)
    with runner.open():
        return list_layer_calls(runner, model_inputs)


def list_layer_calls(runner: ModelRunner, inputs: ModelInputs) -> LayerCalls:
    """List the layers with an open model runner, for the first sample only, so that sample axes are unambiguous."""
    recorder = _LayerCallRecorder(1)
    modules = dict(runner.model.named_modules())
    hooks = {
        module: partial(recorder._on_output, name) for name, module in modules.items() if _can_be_hooked(name, module)
    }
    hidden = [
        name
        for name, module in modules.items()
        if module not in hooks and not name.split(".")[-1].startswith("parametrizations")
    ]
    with hooked(hooks):
        runner.run(inputs.take(torch.arange(1)))
    return recorder.to_layer_calls(runner, hidden)


def _can_be_hooked(name: str, module: nn.Module) -> bool:
    """Check whether a hook can be set; parametrizations are called, but return weights."""
    return not isinstance(module, torch.jit.ScriptModule) and "parametrizations" not in name.split(".")


class _LayerCallRecorder:
    """Collects calls as they return; keeps only the latest output."""

    def __init__(self, size: int) -> None:
        self.size, self.calls, self.counts = size, list[LayerCall](), Counter[str]()
        self.channels_last_by_shape: dict[tuple[int, ...], bool] = {}
        self.latest: tuple[str, list[tuple[Tensor, int]]] = ("", [])

    def _on_output(self, name: str, module: nn.Module, _: Any, output: Any) -> None:
        tensors = list(output_tensors(output))
        shapes = {}
        for tensor_path, tensor in tensors:
            if not tensor.is_nested and (by_sample := move_samples_first(tensor, self.size)) is not None:
                shapes[tensor_path] = tuple(by_sample.shape[1:])
        versions = [(tensor, tensor._version) for _, tensor in tensors]
        same_output_as = self.latest[0] if _same_tensors(versions, self.latest[1]) else None
        shape = next(iter(shapes.values()), None)
        is_channels_last = shape is not None and _has_channels_last(module, shape, self.channels_last_by_shape)
        if shape is not None:
            self.channels_last_by_shape[shape] = is_channels_last
        if same_output_as is None:
            self.latest = (name, versions)
        self.calls.append(
            LayerCall(name, type(module).__name__, self.counts[name], shapes, is_channels_last, same_output_as)
        )
        self.counts[name] += 1

    def to_layer_calls(self, runner: ModelRunner, hidden: list[str]) -> LayerCalls:
        """Return the calls, and the modules without any."""
        called = {item.name for item in self.calls}
        uncalled = tuple(
            name
            for name, item in runner.model.named_modules()
            if name not in called and not isinstance(item, _CONTAINERS) and "parametrizations" not in name.split(".")
        )
        attention_names = [
            name for name, item in runner.model.named_modules() if isinstance(item, nn.MultiheadAttention)
        ]
        unused_with_weights = [
            name
            for name in uncalled
            if name not in hidden and name.removesuffix(".out_proj") not in attention_names
            if next(runner.model.get_submodule(name).parameters(), None) is not None
        ]
        return LayerCalls(
            tuple(self.calls), uncalled, (*runner.notes, *_call_notes(self.calls, unused_with_weights, hidden))
        )


def _same_tensors(first: list[tuple[Tensor, int]], second: list[tuple[Tensor, int]]) -> bool:
    """Check for identical tensors that were not modified in between."""
    has_equal_length = len(first) == len(second) > 0
    return has_equal_length and all(a is b and v == w for (a, v), (b, w) in zip(first, second, strict=True))


def _call_notes(calls: list[LayerCall], unused: list[str], hidden: list[str]) -> list[str]:
    notes = []
    repeated = {name: times for name, times in Counter(item.name for item in calls).items() if times > 1}
    if repeated:
        times = join_names([f"{name or 'the model'} {times} times" for name, times in repeated.items()], 3)
        notes.append(f"Called more than once: {times}; each call is listed separately.")
    if unused:
        notes.append(f"Never called, although its weights may be used directly: {join_names(unused, 5)}.")
    if hidden:
        notes.append(f"TorchScript, which cannot be inspected: {', '.join(hidden[:5])}.")
    if without_samples := [item.title for item in calls if item.shape is None]:
        notes.append(f"No output tensor with a sample axis: {', '.join(without_samples[:5])}.")
    return notes


@dataclass(frozen=True)
class LayerCapture:
    """One layer call, its output or its input; requires an open model runner."""

    runner: ModelRunner
    layer: LayerCall
    side: CaptureSide = "output"

    @property
    def module(self) -> nn.Module:
        """The module of the layer."""
        return self.runner.model.get_submodule(self.layer.name)

    def has_channels_last(self, shape: tuple[int, ...]) -> bool:
        """Check whether the channels of a tensor of this shape are along its last axis."""
        if self.side == "output" and shape == self.layer.shape:
            return self.layer.channels_last
        return _has_channels_last(nn.Identity(), shape, {})

    def capture(self, inputs: ModelInputs) -> dict[str, Tensor]:
        """Return copies of all tensors of one run, made before the next layer may modify them in place."""
        tensors: dict[str, Tensor] = {}
        calls = iter(range(1 << 62))

        def store(value: Any) -> None:
            if next(calls) == self.layer.call:
                tensors.update((tensor_path, to_dense_real(tensor)) for tensor_path, tensor in output_tensors(value))

        if self.side == "output":
            hooks = hooked({self.module: lambda _, args, output: store(output)})
        else:
            hooks = hooked(
                {self.module: lambda _, args, kwargs: store(_call_inputs(args, kwargs))}, before=True, with_kwargs=True
            )
        with hooks:
            self.runner.run(inputs)
        return tensors

    def sample_shapes(self, inputs: ModelInputs) -> dict[str, tuple[int, ...]]:
        """Return the per-sample shapes of the tensors that have a sample axis."""
        if self.side == "output":
            return self.layer.shapes
        single = self.capture(inputs.take(torch.arange(1)))
        by_sample = {tensor_path: move_samples_first(tensor, 1) for tensor_path, tensor in single.items()}
        return {tensor_path: tuple(tensor.shape[1:]) for tensor_path, tensor in by_sample.items() if tensor is not None}

    def capture_tensor(self, inputs: ModelInputs, tensor_path: str, shape: tuple[int, ...]) -> Tensor:
        """Return one tensor with samples first; raise SetupError if they cannot be identified."""
        tensor = self.capture(inputs)[tensor_path]
        by_sample = move_samples_first(tensor, inputs.size, with_free_length(shape, self.has_channels_last(shape)))
        if by_sample is None:
            raise SetupError(
                f"{self.layer.title} gives {tuple(tensor.shape)} for {inputs.size} samples; expected a "
                f"sample axis, with {shape} per sample. Pass one sample at a time."
            )
        return by_sample


def with_free_length(shape: tuple[int, ...], channels_last: bool) -> tuple[int, ...]:
    """Return the shape with a free number of positions if it is a sequence."""
    return (-1, *shape[1:]) if channels_last and len(shape) == 2 else shape


def _call_inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the single positional argument, else all arguments by position and name."""
    return (
        args[0]
        if len(args) == 1 and not kwargs
        else {**{f"{n}": argument for n, argument in enumerate(args)}, **kwargs}
    )
