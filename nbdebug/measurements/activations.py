"""Saturation of activations, representation collapse across layers, and growth of recurrent states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nbdebug.autograd import Graph, Node
from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.hooks.module_hooks import hooked
from nbdebug.measurements.axes import takes_attention_scores
from nbdebug.measurements.batch_independence import has_batch_axis, is_batch_first
from nbdebug.measurements.perturbation import EvalOutputs, fill_zero_parameters
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve

_LAYER_NODES = frozenset({"Addmm", "Mm", "Bmm", "Linear", "Convolution"})
_RELATIVE_SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "Sigmoid": lambda made: 4 * made * (1 - made),
    "Tanh": lambda made: 1 - made.square(),
}
_MIN_STEPS = 8


@dataclass(frozen=True)
class Saturation:
    """One activation of the first batch, and the share of its values or rows with a slope near zero."""

    node: Node
    saturated_share: float


@measurement
def saturation(graph: Graph) -> list[Saturation]:
    """Saturated shares of each sigmoid and tanh before another layer, and of each attention softmax."""
    saturations = []
    for node in graph.get_nodes_by_name("Sigmoid", "Tanh", "Softmax"):
        result = node.get_saved("result")
        if (
            isinstance(result, Tensor)
            and result.numel()
            and (saturated_share := _compute_saturated_share(node, result.detach().float())) is not None
        ):
            saturations.append(Saturation(node, saturated_share))
    return saturations


def _compute_saturated_share(node: Node, result: Tensor) -> float | None:
    """Return the share of values with a slope below 1 % of the maximum slope.

    None for an activation that is not hidden, and for a softmax without rows of several nonzero values.
    """
    if node.name in _RELATIVE_SLOPES:
        is_flat = _RELATIVE_SLOPES[node.name](result) < 0.01
        return float(is_flat.float().mean()) if any(map(_is_layer, _iterate_downstream(node))) else None
    axis = node.get_saved("dim")
    if not isinstance(axis, int) or not takes_attention_scores(node):
        return None
    rows = result.movedim(axis, -1).flatten(0, -2)
    rows = rows[(rows > 0).sum(-1) > 1]
    slope = (1 - rows.square().sum(-1)) / (1 - 1 / rows.shape[-1])
    return float((slope < 0.01).float().mean()) if len(rows) else None


def _is_layer(node: Node) -> bool:
    """Return whether an operation multiplies by weights."""
    return node.name in _LAYER_NODES


def _iterate_downstream(node: Node) -> Iterator[Node]:
    """Yield the nodes that use the result of a node, directly or indirectly, each once."""
    visited, pending = {node}, list(node.users)
    while pending:
        user = pending.pop()
        if user not in visited:
            visited.add(user)
            yield user
            pending += user.users


@dataclass(frozen=True)
class LayerSpread:
    """One call that uses a parameter, and the spread of the samples in its input.

    ``relative_spread`` is the distance of the samples from their mean, relative to the norm of the values; ``std`` is
    the standard deviation around the mean. ``gain`` is the standard deviation of the weight matrix times the square
    root of its fan-in. ``width`` is the number of input values for each sample, ``output_width`` that of output values.
    """

    name: str
    where: Location
    relative_spread: float
    std: float = 0.0
    gain: float | None = None
    width: int = 0
    output_width: int = 0


@dataclass(frozen=True)
class LayerSpreads:
    """The spreads at the layers of one pass in order, and the spread of the output.

    If each layer computes ``table_rows`` rows, such as the nodes of a graph, and the samples are row numbers,
    ``table_layers`` are the spreads of these rows, and ``layers`` is empty.
    """

    layers: tuple[LayerSpread, ...]
    output_spread: float
    table_layers: tuple[LayerSpread, ...] = ()
    table_rows: int = 0


@dataclass(frozen=True)
class SampleSpread:
    """Passes of one batch: with the model as it is, then with any all-zero parameters filled."""

    batch_size: int
    passes: tuple[LayerSpreads, ...]


@measurement
def sample_spread(eval_outputs: EvalOutputs) -> SampleSpread:
    """Spread of the samples of the first batch at each layer, or of the rows of a table that they select.

    Measured in eval mode, or in train mode if the model has batch normalization, since running statistics are
    meaningless before training.
    """
    batch, model = eval_outputs.batch, eval_outputs.setup.eager_model
    if (
        batch.size < 2
        or not has_batch_axis(eval_outputs.outputs[0], batch.size)
        or not is_batch_first(batch, batch.size)
    ):
        raise NotChecked("the batch axis of the output is unknown")
    training = any(isinstance(item, _BatchNorm) for item in model.modules())
    unmodified = _measure_layer_spreads(eval_outputs, training)
    if all(bool(item.any()) for item in model.parameters()):
        return SampleSpread(batch.size, (unmodified,))
    with fill_zero_parameters(model):
        return SampleSpread(batch.size, (unmodified, _measure_layer_spreads(eval_outputs, training)))


def _measure_layer_spreads(answers: EvalOutputs, training: bool) -> LayerSpreads:
    """Run one pass and record each call with a parameter and an input with a batch axis."""
    layers: list[LayerSpread] = []
    size = answers.batch.size
    tables: dict[int, list[LayerSpread]] = {}

    def on_call(call: TorchCall) -> None:
        signal, weights = find_layer_input(call.inputs, size)
        if signal is not None:
            layers.append(_measure_call(call, signal, weights))
        elif weights and (table := next((t for t in call.inputs if _is_signal(t) and t.dim() > 1), None)) is not None:
            tables.setdefault(len(table), []).append(_measure_call(call, table, weights))

    with (
        Preserve(answers.setup.eager_model) if training else nullcontext(),
        record_calls(answers.setup.eager_model, on_call),
    ):
        output = answers.predict(answers.batch, training)[0]
    if not layers and len(tables) == 1 and _selects_rows(answers, rows := next(iter(tables))):
        return LayerSpreads((), compute_relative_spread(output), tuple(tables[rows]), rows)
    return LayerSpreads(tuple(layers), compute_relative_spread(output))


def has_effect(answers: EvalOutputs, layer: LayerSpread) -> bool:
    """Return whether other values of the parameters of a layer's module change the output of the model.

    True if the module has no parameters of its own, so that they are unknown. The model is restored.
    """
    model = answers.setup.eager_model
    parameters = [*model.get_submodule(layer.where.module or "").parameters(recurse=False)]
    if not parameters:
        return True
    generator = torch.Generator().manual_seed(0)
    with Preserve(model), torch.no_grad():
        for parameter in parameters:
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter))
        outputs = answers.predict(answers.batch)
    return any(bool(answers.changed_values(output, i).any()) for i, output in enumerate(outputs))


def _measure_call(call: TorchCall, signal: Tensor, weights: list[nn.Parameter]) -> LayerSpread:
    """Measure the spread of the rows of a signal that a call with parameters receives."""
    rows = max(len(signal), 1)
    return LayerSpread(
        call.name,
        call.where,
        compute_relative_spread(signal),
        _compute_std(signal),
        _compute_gain(weights),
        signal.numel() // rows,
        call.outputs[0].numel() // rows,
    )


def _selects_rows(answers: EvalOutputs, rows: int) -> bool:
    """Check whether an input has one whole number for each sample, all below a number of rows."""
    whole = [t for t in answers.inputs.values() if not t.is_floating_point() and t.dtype is not torch.bool]
    numbers = [t for t in whole if t.dim() == 1 and has_batch_axis(t, answers.batch.size)]
    return any(int(t.min()) >= 0 and int(t.max()) < rows for t in numbers)


def find_layer_input(inputs: Sequence[Tensor], size: int) -> tuple[Tensor | None, list[nn.Parameter]]:
    """Return the input with a row per sample of a call that uses parameters, and these; None for any other call."""
    weights = [t for t in inputs if isinstance(t, nn.Parameter)]
    signals = (t for t in inputs if _is_signal(t) and has_batch_axis(t, size))
    return (next(signals, None) if weights else None), weights


def _is_signal(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and not isinstance(tensor, nn.Parameter)


@torch.no_grad()
def _compute_std(tensor: Tensor) -> float:
    values = tensor.detach().float()
    return float((values - values.mean(0)).norm()) / math.sqrt(max(values.numel(), 1))


@torch.no_grad()
def _compute_gain(weights: list[nn.Parameter]) -> float | None:
    """Return the gain of a weight matrix or kernel for independent inputs; None if there is no matrix."""
    matrix = next((weight for weight in weights if weight.dim() > 1 and weight.numel() > len(weight)), None)
    return None if matrix is None else float(matrix.float().std()) * math.sqrt(matrix.numel() / len(matrix))


@torch.no_grad()
def compute_relative_spread(tensor: Tensor) -> float:
    """Return the distance of the samples from their mean, relative to the norm of the values; zero for zeros."""
    values = tensor.detach().float()
    size = float(values.norm())
    return float((values - values.mean(0)).norm()) / size if size else 0.0


@dataclass(frozen=True)
class RecurrentGrowth:
    """Growth factor of a recurrent module, from the middle of a sequence to its last step.

    The growth of the inputs is divided out.
    """

    module: str
    steps: int
    factor: float


@dataclass
class _SizeRecorder:
    """Sizes of the inputs and outputs of a module, step by step."""

    input_sizes: list[float] = field(default_factory=list)
    output_sizes: list[float] = field(default_factory=list)

    def record(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Record a call of the module with a sequence or with one step of it."""
        state = output[0] if isinstance(output, tuple) and output else output
        if not args or not isinstance(args[0], Tensor) or not isinstance(state, Tensor):
            return
        is_sequence = isinstance(module, nn.RNN) and state.dim() > 1
        axis = 1 if isinstance(module, nn.RNN) and module.batch_first and state.dim() > 2 else 0
        self.input_sizes += map(_compute_root_mean_square, args[0].unbind(axis) if is_sequence else [args[0]])
        self.output_sizes += map(_compute_root_mean_square, state.unbind(axis) if is_sequence else [state])

    @property
    def factor(self) -> float:
        """The growth of the outputs over the second half, relative to the growth of the inputs."""
        return _compute_growth(self.output_sizes) / max(_compute_growth(self.input_sizes), 1.0)


@measurement
def recurrent_growth(eval_outputs: EvalOutputs) -> list[RecurrentGrowth]:
    """Growth of each recurrent module with an unbounded activation (ReLU), for sequences and cells."""
    modules = {
        module: name
        for name, module in eval_outputs.setup.eager_model.named_modules()
        if isinstance(module, (nn.RNN, nn.RNNCell)) and module.nonlinearity == "relu"
    }
    recorders = {module: _SizeRecorder() for module in modules}
    with hooked({module: recorder.record for module, recorder in recorders.items()}):
        if recorders:
            eval_outputs.predict(eval_outputs.batch)
    return [
        RecurrentGrowth(modules[module], len(sizes.output_sizes), sizes.factor)
        for module, sizes in recorders.items()
        if len(sizes.output_sizes) >= _MIN_STEPS
    ]


def _compute_root_mean_square(tensor: Tensor) -> float:
    return math.sqrt(float(tensor.detach().double().square().mean())) if tensor.numel() else 0.0


def _compute_growth(sizes: Sequence[float]) -> float:
    """Return the last size divided by the middle one."""
    middle = sizes[len(sizes) // 2]
    return sizes[-1] / middle if middle else 1.0
