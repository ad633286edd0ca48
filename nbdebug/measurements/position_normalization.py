"""Values between layers that are normalized over the positions of a sequence, by their mean and variance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nbdebug.autograd.attention_calls import PRODUCT_CALLS, CallGraph
from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.attention_pass import ATTENTION_CALLS, few_samples
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import seed_all
from nbdebug.setup.evaluation_mode import fast_attention_disabled, in_mode

_READING_CALLS = frozenset({"linear", "multi_head_attention_forward", "layer_norm", "rms_norm", "getitem"})
_AFFINE_CALLS = frozenset(
    {"transpose", "permute", "contiguous", "get", "mul", "rmul", "add", "radd", "sub", "div", "truediv", "dropout"}
)
_NO_ATTENTION = "no attention is found in the calls of the model"
_Statistic = Literal["mean", "mean square", "variance"]
_MIN_LENGTH, _MIN_SAMPLES = 4, 3
_EQUAL, _DIFFERENT = 1e-3, 1e-2  # differences of a statistic between samples, relative to the spread of the values


@dataclass(frozen=True)
class PositionNormalization:
    """A call after which a statistic over the ``length`` positions is the same in all samples, though not before it.

    ``spread_before`` is how much the statistic differs between samples before the call, relative to the values.
    ``kind`` is that of the inputs of the model.
    """

    where: Location
    statistic: _Statistic
    length: int
    spread_before: float
    kind: Literal["tokens", "numbers"]


@slow_measurement
def position_normalizations(eval_outputs: EvalOutputs) -> list[PositionNormalization]:
    """Normalizations over positions, of values that a layer makes and another layer receives, in models with attention.

    Attention is a softmax over scores or a product of values, which linear attention has too. Convolutions, which are
    often followed by normalizations over positions, and the input itself are left out.
    """
    if (ATTENTION_CALLS | PRODUCT_CALLS).isdisjoint(eval_outputs.called_functions):
        raise NotChecked(_NO_ATTENTION)
    answers = few_samples(eval_outputs)
    recorded: list[TorchCall] = []
    model = answers.setup.eager_model
    with torch.no_grad(), in_mode(model, False), fast_attention_disabled(), record_calls(model, recorded.append):
        seed_all(0)
        try:
            answers.setup.predict(answers.batch)
        except (RuntimeError, ValueError, IndexError) as error:  # such as a graph whose samples belong together
            raise NotChecked(f"the model does not take a part of a batch: {error}") from None
    if answers.batch.size < _MIN_SAMPLES or not any(map(_is_attention, recorded)):
        raise NotChecked(_NO_ATTENTION)
    is_numeric = any(tensor.is_floating_point() for tensor in answers.inputs.values())
    graph, normalizations = CallGraph(recorded), dict[int, PositionNormalization]()
    for call in recorded:
        value = _find_value(graph, call, answers.batch.size)
        if value is None:
            continue
        for source, statistic, spread in _find_normalization(graph, value):
            kind: Literal["tokens", "numbers"] = "numbers" if is_numeric else "tokens"
            item = PositionNormalization(source.where, statistic, value.shape[1], spread, kind)
            normalizations.setdefault(id(source), item)
    return list(normalizations.values())


def _find_value(graph: CallGraph, call: TorchCall, size: int) -> Tensor | None:
    """Return the value that a layer reads, with axes of samples, positions and features; None if it has others."""
    value = call.inputs[0] if call.inputs and call.name in _READING_CALLS else None
    maker = graph.makers.get(id(value))
    if call.name == "multi_head_attention_forward" and maker is not None and maker.name == "transpose":
        value = maker.inputs[0]  # torch's own module puts positions first
    is_sequence = value is not None and value.dim() == 3 and value.is_floating_point() and len(value) == size
    return value if is_sequence else None


def _is_attention(call: TorchCall) -> bool:
    """Return whether a call is an attention, or a product of two activations."""
    is_product = call.name in PRODUCT_CALLS and len(call.inputs) > 1
    return call.name in ATTENTION_CALLS or (is_product and not any(isinstance(t, nn.Parameter) for t in call.inputs))


def _find_normalization(graph: CallGraph, value: Tensor) -> Iterator[tuple[TorchCall, _Statistic, float]]:
    """Yield the call that gives a statistic over the second axis of a value the same number in all samples."""
    length = value.shape[1]
    if length < _MIN_LENGTH or length == value.shape[2] or _compare_samples(value, 1) is None:
        return
    pending, visited = [value], set[int]()
    while pending:
        current = pending.pop(0)
        call = graph.makers.get(id(current))
        axis = _find_axis(current, length)
        if call is None or axis is None or id(current) in visited or not call.inputs or call.name.startswith("conv"):
            continue
        visited.add(id(current))
        statistic = _find_equal(current, axis)
        before = [t for t in call.inputs if t.numel() == current.numel() and t.is_floating_point()]
        if statistic is None or not before:
            continue
        spreads = [_compare_samples(t, a) for t in before if (a := _find_axis(t, length)) is not None]
        differing = [s[statistic] for s in spreads if s is not None and s[statistic] > _DIFFERENT]
        if len(differing) == len(before) and _is_made_by_layer(graph, before[0]):
            yield call, statistic, max(differing)
        elif call.name in _AFFINE_CALLS:
            pending += before


def _find_axis(value: Tensor, length: int) -> int | None:
    """Return the axis of the positions of a value of three axes, the first of which are the samples."""
    axes = [axis for axis in (1, 2) if value.dim() == 3 and value.shape[axis] == length]
    return axes[0] if len(axes) == 1 else None


def _compare_samples(value: Tensor, axis: int) -> dict[_Statistic, float] | None:
    """Return how much mean and variance over positions differ between samples; None if all samples are the same."""
    values = value.detach().float().movedim(axis, 1)
    scale = float(values.std())
    if scale == 0.0 or not bool((values < 0).any()) or float((values - values[:1]).abs().max()) <= _EQUAL * scale:
        return None
    means, squares = values.mean(1), values.square().mean(1)
    statistics: dict[_Statistic, Tensor] = {
        "mean": means / scale,
        "mean square": squares / scale**2,
        "variance": (squares - means.square()) / scale**2,
    }
    return {name: float((values - values[:1]).abs().max()) for name, values in statistics.items()}


def _find_equal(value: Tensor, axis: int) -> _Statistic | None:
    """Return the statistic over positions that is the same in all samples."""
    spread = _compare_samples(value, axis)
    return None if spread is None else next((name for name in spread if spread[name] <= _EQUAL), None)


def _is_made_by_layer(graph: CallGraph, value: Tensor) -> bool:
    """Return whether parameters make a value, and not in a convolution just before."""
    names = _AFFINE_CALLS | {"relu", "gelu", "silu", "leaky_relu", "elu"}
    if any(call.name.startswith("conv") for _, call in graph.sources(value, names)):
        return False
    all_names = frozenset(call.name for call in graph.calls)
    return any(isinstance(t, nn.Parameter) for _, call in graph.sources(value, all_names) for t in call.inputs)
