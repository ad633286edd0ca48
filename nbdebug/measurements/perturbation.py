"""Outputs in eval mode for changed inputs, and the calls where a change spreads or is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked, first_line
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import fast_attention_disabled, in_mode
from nbdebug.setup.losses import score_tensor
from nbdebug.tensors.pytree import tree_leaves, tree_map, tree_tensors

_MAX_RELATIVE_NOISE = 1e-3  # maximum difference of two passes over the same batch, relative to the largest value
_INIT_STD = 0.02  # standard deviation of the initial weights in GPT-2 and BERT


@dataclass(frozen=True)
class EvalOutputs:
    """The model in eval mode; each pass uses the same random numbers and leaves the modes unchanged.

    ``outputs`` are the tensors that it returns for ``batch``, starting with the one the loss uses. A difference of more
    than ``noise`` from them is due to a change of the input. ``statistics`` are the running statistics of normalization
    layers and their values in those passes: passes in train mode in between would change the output of every sample.
    ``called_functions`` are the names of the torch functions that the model calls for the batch, and
    ``has_reshaped_values`` is True if one of them returns as many values as it takes, in another shape: measurements
    skip what no call can show.
    """

    setup: Setup
    batch: Batch
    outputs: tuple[Tensor, ...] = ()
    noise: float = 0.0
    statistics: tuple[tuple[Tensor, Tensor], ...] = ()
    called_functions: frozenset[str] = frozenset()
    has_reshaped_values: bool = False

    def predict(self, batch: Batch, training: bool = False) -> tuple[Tensor, ...]:
        """Return the floating-point output tensors, the one the loss uses first; ``training`` is the mode.

        Raises NotChecked as `predict_whole` does.
        """
        output = self.predict_whole(batch, training)
        main = score_tensor(output)
        output_tensors = [main, *(t for t in tree_tensors(output) if t is not main)]
        return tuple(t.detach().clone() for t in output_tensors if isinstance(t, Tensor) and t.is_floating_point())

    def recorded_calls(self, batch: Batch) -> list[TorchCall]:
        """Return the torch calls of a pass in eval mode.

        Raises NotChecked as `predict_whole` does.
        """
        recorded: list[TorchCall] = []
        with record_calls(self.setup.eager_model, recorded.append):
            self.predict(batch)
        return recorded

    def predict_whole(self, batch: Batch, training: bool = False) -> Any:
        """Return all that the model returns; ``training`` is the mode.

        Raises NotChecked for another batch that the model rejects, such as a text without the tokens of its image.
        """
        model = self.setup.eager_model
        with torch.no_grad(), in_mode(model, training), fast_attention_disabled(), _held(self.statistics):
            seed_all(0)
            try:
                return self.setup.predict(batch)
            except Exception as error:
                if batch is self.batch:
                    raise
                raise NotChecked(f"the model rejects a changed batch: {first_line(error)}") from error

    def changed_values(self, after: Tensor, output_index: int = 0) -> Tensor:
        """Return a mask of the values that differ from the first output; raise NotChecked if the shape differs."""
        before = self.outputs[output_index]
        if after.shape != before.shape:
            raise NotChecked("the shape of the output depends on the values of the input")
        return ~torch.isclose(after, before, rtol=0.0, atol=self.noise, equal_nan=True)

    def transform_inputs(self, transform_tensor: Callable[[Tensor], Tensor]) -> Batch:
        """Return the batch with every input tensor transformed."""
        args, kwargs = tree_map(
            (self.batch.args, self.batch.kwargs),
            lambda leaf: transform_tensor(leaf) if isinstance(leaf, Tensor) else leaf,
        )
        return replace(self.batch, args=args, kwargs=kwargs)

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The input tensors, by argument name or position."""
        paths_and_leaves = tree_leaves((self.batch.args, self.batch.kwargs))
        return {".".join(map(str, path[1:])): leaf for path, leaf in paths_and_leaves if isinstance(leaf, Tensor)}


def _running_statistics(model: nn.Module) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return the running statistics of all normalization layers, each with a copy."""
    layers = [module for module in model.modules() if isinstance(module, _NormBase)]
    tensors = [t for layer in layers for t in (layer.running_mean, layer.running_var) if isinstance(t, Tensor)]
    return tuple((tensor, tensor.clone()) for tensor in tensors if not is_lazy(tensor))


@contextmanager
def _held(statistics: tuple[tuple[Tensor, Tensor], ...]) -> Iterator[None]:
    """Give running statistics their earlier values within the block.

    Through ``data``, so that the graph of an earlier pass, which saves them, can still run backward.
    """
    changed = [(tensor, earlier, tensor.clone()) for tensor, earlier in statistics if not torch.equal(tensor, earlier)]
    for tensor, earlier, _ in changed:
        tensor.data.copy_(earlier)
    try:
        yield
    finally:
        for tensor, _, latest in changed:
            tensor.data.copy_(latest)


class _CallSummary:
    """The names of the calls of a pass, and whether one of them returns the values it takes in another shape."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.has_reshaped_values = False

    def add(self, call: TorchCall) -> None:
        """Add a call."""
        self.names.add(call.name)
        source, result = call.inputs[0] if call.inputs else call.outputs[0], call.outputs[0]
        self.has_reshaped_values |= source.shape != result.shape and source.numel() == result.numel()


@slow_measurement
def eval_outputs(setup: Setup, batches: list[Batch], output: Any) -> EvalOutputs:
    """Outputs of the model in eval mode for the first batch, and for any change of it."""
    unmeasured = EvalOutputs(setup, batches[0], statistics=_running_statistics(setup.eager_model))
    calls = _CallSummary()
    try:
        first = unmeasured.predict(batches[0])
        with record_calls(setup.eager_model, calls.add):
            repeated = unmeasured.predict(batches[0])
    except Exception as error:
        raise NotChecked(f"the forward pass in eval mode raised {type(error).__name__}: {error}") from error
    if not first or not all(bool(t.isfinite().all()) for t in first):
        raise NotChecked("in eval mode the model returns no finite floating-point tensor")
    scale = max(float(t.abs().max()) for t in first if t.numel())
    noise = max(float((a - b).abs().max()) for a, b in zip(first, repeated, strict=True) if a.numel())
    if noise > _MAX_RELATIVE_NOISE * scale:
        raise NotChecked("two passes over the same batch in eval mode give different outputs")
    return replace(
        unmeasured,
        outputs=first,
        noise=max(10 * noise, 1e-6 * scale),
        called_functions=frozenset(calls.names),
        has_reshaped_values=calls.has_reshaped_values,
    )


@dataclass(frozen=True)
class MixingCall:
    """A call that takes changed positions separate from the others and mixes them in its result.

    ``axis`` is the axis of the positions in ``shape``, the shape of the first changed input; None if no axis holds them
    any more since the call ``axis_lost_by``.
    """

    call: TorchCall
    shape: tuple[int, ...]
    axis: int | None
    axis_lost_by: TorchCall | None = None


def track_change(
    answers: EvalOutputs, changed: Batch, positions: Sequence[int], length: int, entries: int = 1
) -> tuple[MixingCall, ...]:
    """Return the calls, in order, that spread a change at some ``positions`` of an axis of ``length`` to others.

    The axis may have several ``entries`` for each position. If there are no such calls, and no axis of the last output
    holds the positions any more, return the call that lost it.
    """
    tracker = _ChangeTracker(answers, changed, positions, length, entries)
    lost_by = tracker.last_lost_by
    return tuple(tracker.mixing_calls or ([MixingCall(lost_by, (), None, lost_by)] if lost_by else []))


class _ChangeTracker:
    """Compares two passes call by call.

    The changed positions own a proportional share of the values of each tensor. If more values change, positions have
    mixed.
    """

    def __init__(
        self, answers: EvalOutputs, changed: Batch, positions: Sequence[int], length: int, entries: int
    ) -> None:
        self._positions, self._length, self._entries = list(positions), length, entries
        self._first_outputs: list[tuple[Tensor, ...]] = []
        self._references: list[Tensor] = []
        self.mixing_calls: list[MixingCall] = []
        self._axis_lost_by: dict[int, TorchCall] = {}
        self.last_lost_by: TorchCall | None = None
        with record_calls(
            answers.setup.eager_model, lambda call: self._first_outputs.append(tuple(t.clone() for t in call.outputs))
        ):
            answers.predict(answers.batch)
        inputs = EvalOutputs(answers.setup, changed).inputs
        self._masks = {id(after): after != answers.inputs[name] for name, after in inputs.items()}
        with record_calls(answers.setup.eager_model, self._compare):
            answers.predict(changed)

    def _compare(self, call: TorchCall) -> None:
        """Compare a call of the second pass with the same call of the first; stop if the passes diverge."""
        before = self._first_outputs.pop(0) if self._first_outputs else ()
        if [t.shape for t in before] != [t.shape for t in call.outputs]:
            self._first_outputs.clear()
            return
        inputs = [t for t in call.inputs if id(t) in self._masks]
        unmixed = not any(self._is_mixed(t) for t in inputs)
        inputs = [t for t in inputs if bool(self._masks[id(t)].any())]
        axes = [(tuple(t.shape), self._find_axis(t)) for t in inputs]
        axis_lost_by = next((self._axis_lost_by[id(t)] for t in inputs if id(t) in self._axis_lost_by), None)
        self._references += [*call.inputs, *call.outputs]
        self._masks.update({id(new): old != new for old, new in zip(before, call.outputs, strict=True)})
        if axes and bool(self._masks[id(call.outputs[0])].any()) and self._find_axis(call.outputs[0]) is None:
            self._axis_lost_by[id(call.outputs[0])] = axis_lost_by or call
        self.last_lost_by = self._axis_lost_by.get(id(call.outputs[0]))
        if unmixed and self._is_mixed(call.outputs[0]):
            shape, axis = axes[0] if axes else ((), None)
            axis = self._axis_of_call(call, inputs[0]) if axis is None and inputs else axis
            self.mixing_calls.append(MixingCall(call, shape, axis, axis_lost_by))

    def _axis_of_call(self, call: TorchCall, tensor: Tensor) -> int | None:
        """Return the axis along which a call runs if it holds the positions, each with any number of entries."""
        numbers = [argument for argument in call.args[1:] if type(argument) is int]
        axis = call.kwargs.get("dim", numbers[-1] if numbers else None)
        if type(axis) is not int or not -tensor.dim() <= axis < tensor.dim() or tensor.shape[axis] % self._length:
            return None
        axis %= tensor.dim()
        changed = self._masks[id(tensor)].movedim(axis, 0).flatten(1).any(1).nonzero().flatten()
        candidates = (changed % self._length, changed // (tensor.shape[axis] // self._length))
        is_separate = any(sorted(set(positions.tolist())) == self._positions for positions in candidates)
        return axis if is_separate else None

    def _is_mixed(self, tensor: Tensor) -> bool:
        """Return whether more values of a tensor changed than the changed positions own."""
        mask = self._masks[id(tensor)]
        return int(mask.sum()) * self._length > mask.numel() * len(self._positions)

    def _find_axis(self, tensor: Tensor) -> int | None:
        """Return the axis of the positions: it has their length, and only their entries changed.

        Several entries of a position are one after the other, or all positions come in turn.
        """
        mask = self._masks[id(tensor)]
        for axis in range(mask.dim()):
            along = mask.movedim(axis, 0).flatten(1).any(1) if mask.dim() > 1 else mask
            changed = along.nonzero().flatten()
            if len(along) == self._length:
                candidates = [changed]
            elif len(along) == self._length * self._entries:
                candidates = [changed % self._length, changed // self._entries]
            else:
                continue
            if any(sorted(set(positions.tolist())) == self._positions for positions in candidates):
                return axis
        return None


@contextmanager
def fill_zero_parameters(model: nn.Module) -> Iterator[None]:
    """Fill all-zero parameters with small random numbers for the duration of a block."""
    with Preserve(model), torch.no_grad():
        for parameter in model.parameters():
            if not bool(parameter.any()):
                parameter.normal_(0.0, _INIT_STD)
        yield


@contextmanager
def zeros_filled(answers: EvalOutputs) -> Iterator[EvalOutputs]:
    """Yield the outputs with small random numbers in all-zero parameters that are trained, biases excepted.

    A layer or gate that starts at zero hides what the layers before it do until it has been trained. A bias hides
    nothing. A frozen parameter hides it forever, and stays as it is.
    """
    parameters = [
        parameter
        for name, parameter in answers.setup.eager_model.named_parameters()
        if parameter.requires_grad and "bias" not in name.rpartition(".")[2] and not bool(parameter.any())
    ]
    if not parameters:
        yield answers
        return
    generator = torch.Generator().manual_seed(0)
    with Preserve(answers.setup.eager_model), torch.no_grad():
        for parameter in parameters:
            parameter.copy_(_INIT_STD * torch.randn(parameter.shape, generator=generator))
        yield replace(answers, outputs=answers.predict(answers.batch))


@contextmanager
def fitted_statistics(answers: EvalOutputs) -> Iterator[EvalOutputs]:
    """Give normalization layers the statistics of the batch for the duration of a block.

    The running statistics of a new model fit no input: signals may fade from layer to layer in eval mode alone.
    """
    model, fitted = answers.setup.eager_model, replace(answers, statistics=())
    layers = [module for module in model.modules() if isinstance(module, _NormBase)]
    momenta = [layer.momentum for layer in layers]
    with Preserve(model):
        try:
            for layer in layers:
                layer.momentum = 1.0
            fitted.predict(fitted.batch, training=True)
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum
        yield fitted


def compute_loss_value(setup: Setup, output: Any, batch: Batch) -> float:
    """Return the loss of ``output`` for a batch; raise NotChecked if the loss rejects such an output or target.

    A loss may use a mask of the samples, compare each output with each target, or reject values that are not
    probabilities.
    """
    return float(compute_loss(setup, output, batch).detach())


def compute_loss(setup: Setup, output: Any, batch: Batch) -> Tensor:
    """Return the loss as a tensor with its graph; raise NotChecked as `compute_loss_value` does."""
    try:
        return setup.loss(output, batch)
    except Exception as error:
        raise NotChecked(f"the loss does not accept a synthetic output: {type(error).__name__}: {error}") from None


def where_information_is_lost(answers: EvalOutputs, transform_tensor: Callable[[Tensor], Tensor]) -> TorchCall | None:
    """Return the last call of a forward pass that takes changed values and returns unchanged ones.

    ``transform_tensor`` is applied to the inputs.

    None if nothing is lost at once, for example if values fade from layer to layer.
    """
    before, after = (
        answers.recorded_calls(batch) for batch in (answers.batch, answers.transform_inputs(transform_tensor))
    )
    if [call.name for call in before] != [call.name for call in after]:
        return None
    pairs = zip(before, after, strict=True)
    return next(
        (
            call_before
            for call_before, call_after in reversed(list(pairs))
            if _loses_difference(call_before, call_after)
        ),
        None,
    )


def is_read(answers: EvalOutputs, transform_tensor: Callable[[Tensor], Tensor]) -> bool:
    """Return whether any call of a forward pass takes values that change with the inputs."""
    before, after = (
        answers.recorded_calls(batch) for batch in (answers.batch, answers.transform_inputs(transform_tensor))
    )
    if [call.name for call in before] != [call.name for call in after]:
        return True
    tensors = [
        pair
        for calls in zip(before, after, strict=True)
        for pair in zip(*(call.inputs for call in calls), strict=False)
    ]
    return not all(_is_equal(*pair) for pair in tensors)


def _loses_difference(before: TorchCall, after: TorchCall) -> bool:
    """Return whether the inputs of a call differ while its outputs are equal.

    Of whole numbers, only calls for each value count: the largest of some lengths may well stay the same.
    """
    inputs_differ = any(not _is_equal(a, b) for a, b in zip(before.inputs, after.inputs, strict=False))
    shapes = {t.shape for t in before.inputs if t.dtype is not torch.bool}
    outputs = [t for t in before.outputs if t.is_floating_point() or (t.dtype is not torch.bool and t.shape in shapes)]
    return inputs_differ and bool(outputs) and all(map(_is_equal, before.outputs, after.outputs))


def _is_equal(before: Tensor, after: Tensor) -> bool:
    return before.shape == after.shape and torch.equal(before, after)
