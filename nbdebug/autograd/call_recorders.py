"""Record torch calls: all calls, broadcasts, first layers, and mode-dependent calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from nbdebug.autograd.tracing import ModuleStack, get_call_name
from nbdebug.finding import Location
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import SourceLine, get_line_from_frame, get_location
from nbdebug.tensors.pytree import tree_tensors

ELEMENTWISE_LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
_ELEMENTWISE_OPERATORS = {
    *("add", "sub", "rsub", "mul", "truediv", "pow", "radd", "rmul", "subtract", "multiply", "div", "where"),
    *("poisson_nll_loss", "kl_div", "soft_margin_loss"),
}
_SELECTION_CALLS = {"gather", "getitem", "index_select", "masked_select", "take", "take_along_dim"}
_NEW_AXIS_CALLS = {"getitem", "reshape", "unsqueeze", "view", "view_as"}
_CONVOLUTION_CALLS = {f"conv{transposed}{axes}d" for transposed in ("", "_transpose") for axes in (1, 2, 3)}
_PRODUCT_CALLS = {"linear", "bilinear", "matmul", "rmatmul", "mm", "bmm", "addmm", "einsum"}
_RECURRENT_CALLS = {f"{kind}{cell}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell")}
_WEIGHTED_CALLS = _CONVOLUTION_CALLS | _PRODUCT_CALLS | _RECURRENT_CALLS | {"multi_head_attention_forward"}
_NORMALIZATION_CALLS = {"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"}
_CallKind = Literal["dropout", "batch statistics", "draw"]
_DROPOUT_FUNCTIONS = (
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, F.rrelu,
    torch.dropout, torch.dropout_, torch.feature_dropout, torch.alpha_dropout,
)  # fmt: skip
_RECURRENT_FUNCTIONS = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
_RANDOM_FUNCTIONS = (
    torch.rand, torch.rand_like, torch.randn, torch.randn_like, torch.randint, torch.randperm, torch.bernoulli,
    torch.multinomial, torch.normal, torch.poisson, F.gumbel_softmax, torch.Tensor.bernoulli, torch.Tensor.bernoulli_,
    torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.random_, torch.Tensor.exponential_,
    torch.Tensor.multinomial,
)  # fmt: skip


@dataclass(frozen=True)
class TorchCall:
    """One call of a torch function: its name, input and output tensors, arguments, module path, line and function."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: str | None
    line: SourceLine | None
    function: Callable[..., Any] | None = None

    @property
    def where(self) -> Location:
        """The submodule that ran, and the user's line."""
        return get_location(self.line, self.module)


class CallRecorder(TorchFunctionMode):
    """Passes every torch call to ``_on_call`` while active, except calls that torch's own functions make internally."""

    def __init__(self, stack: ModuleStack, on_call: Callable[[TorchCall], None]) -> None:
        super().__init__()
        self._stack, self._on_call = stack, on_call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if outputs := tree_tensors(result):
            name, line = getattr(func, "__name__", "call"), get_line_from_frame(sys._getframe(1))
            module = self._stack.innermost or None
            inputs = tuple(tree_tensors((args, kwargs or {})))
            self._on_call(TorchCall(name.strip("_"), inputs, tuple(outputs), args, kwargs or {}, module, line, func))
        return result


@contextmanager
def record_calls(model: nn.Module, on_call: Callable[[TorchCall], None]) -> Iterator[None]:
    """Pass every torch call of ``model`` to ``on_call`` in a block, with the path of the calling submodule."""
    stack = ModuleStack()
    with stack.track(model), CallRecorder(stack, on_call):
        yield


@dataclass(frozen=True)
class Broadcast:
    """One call that broadcast output or target over the other.

    ``axis_line`` is the line of another function than that of ``line`` which gave an operand its axis of length 1.
    ``is_output_first`` tells whether the output is the first of two operands; None if there are others.
    """

    call: str
    output: tuple[int, ...]
    target: tuple[int, ...]
    result: tuple[int, ...]
    line: SourceLine | None
    axis_line: SourceLine | None = None
    is_output_first: bool | None = None


class BroadcastTracker:
    """Tracks values of the output and of the target through torch calls, and records the calls that broadcast them.

    Torch's losses take equal shapes. Operators may broadcast one side on purpose, as for quantiles or weights; they are
    recorded only if the result is larger than both operands, which have different numbers of axes. Calls in which
    errors, made of output and target, meet values of a target again, such as weights, are in ``weight_broadcasts``.
    Errors that meet values of the output again, as rewards meet the values of a critic, count as targets if both have
    one value for each sample and the line itself gives neither a new axis, as for all pairs. Results without a gradient
    that have one value for each of the ``batch_size`` samples count as targets too. The values of each sample at the
    indices of all samples, as in ``q[:, actions]``, are broadcast by a target of the same length. Broadcasts of one
    weight and one error for each sample whose results are summed as a whole are also in ``lost_weights``: their sum is
    the product of two sums, whichever weight belongs to an error.
    """

    def __init__(self, output: list[Tensor], targets: list[Tensor], batch_size: int | None = None) -> None:
        self._batch_size = batch_size
        self._references = [*output, *targets]  # ids are unique while the tensors live
        self._output_ids = {id(t) for t in output}
        self._target_ids = {id(t) for t in targets}
        self._error_ids: set[int] = set()
        self._crossed_ids: set[int] = set()
        self._new_axis_lines: dict[int, SourceLine | None] = {}
        self._axis_lines: dict[int, SourceLine | None] = {}
        self._broadcast_numbers: dict[int, set[int]] = {}
        self._next_number, self._latest_numbers = 0, set[int]()
        self.broadcasts: list[Broadcast] = []
        self.weight_broadcasts: list[Broadcast] = []
        self.lost_weights: list[Broadcast] = []
        self._weighted: dict[int, Broadcast] = {}

    def add_output(self, output: list[Tensor]) -> None:
        """Track further values of the output."""
        self._references += output
        self._output_ids.update(id(t) for t in output)

    def add_targets(self, targets: list[Tensor]) -> None:
        """Track further values of the target."""
        self._references += targets
        self._target_ids.update(id(t) for t in targets)

    def on_call(self, func: Any, inputs: list[Tensor]) -> None:
        """Record a call that is about to run, if it broadcasts."""
        self._next_number = len(self.broadcasts)
        from_output, from_target, from_error = self._split(inputs)
        if from_output and from_target:
            self._record(func, inputs, from_output[0], from_target[0], self.broadcasts)
        elif from_error and from_target:
            self._record(func, inputs, from_error[0], from_target[0], self.weight_broadcasts)
        elif (
            from_error
            and from_output
            and from_error[0].numel() == from_output[0].numel()
            and not self._is_expanded_here(inputs)
        ):
            self._record(func, inputs, from_output[0], from_error[0], self.broadcasts)

    def on_result(self, func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Track the results of a call; selected values are those of the tensor that they are selected from."""
        from_output, from_target, from_error = self._split(inputs)
        name = getattr(func, "__name__", "").strip("_")
        self._follow_broadcasts(inputs, inputs[:1] if name == "setitem" else outputs)
        if name in _SELECTION_CALLS and any(self._split(inputs[:1])):
            self._crossed_ids.update(id(t) for t in outputs if self._is_crossed(t, inputs))
            from_output, from_target, from_error = self._split(inputs[:1])
        if name in _NEW_AXIS_CALLS and inputs:
            line = get_line_from_frame(sys._getframe(2))
            self._new_axis_lines.update((id(t), line) for t in outputs if t.shape != inputs[0].shape)
        if any(id(t) in self._new_axis_lines or id(t) in self._axis_lines for t in (*inputs, *outputs)):
            line = get_line_from_frame(sys._getframe(2))
            self._axis_lines.update((id(t), line) for t in outputs if 1 in t.shape)
        self._references += outputs
        self._follow_weights(name, inputs, outputs)
        if from_error or (from_output and from_target):
            self._error_ids.update(id(t) for t in outputs)
        elif bool(from_output) != bool(from_target):
            (self._output_ids if from_output else self._target_ids).update(id(t) for t in outputs)
        elif not from_output:
            self._target_ids.update(id(t) for t in outputs if not t.requires_grad and t.shape == (self._batch_size,))

    def broadcasts_in(self, loss: Any) -> list[Broadcast]:
        """Return the broadcasts of which a loss is computed; a cost that only chooses pairs is no part of it.

        For a loss that is not known, those of the latest result.
        """
        numbers = self._broadcast_numbers.get(id(loss), self._latest_numbers)
        numbers = numbers.union(range(self._next_number, len(self.broadcasts)))  # of a call that has raised
        return [broadcast for number, broadcast in enumerate(self.broadcasts) if number in numbers]

    def _follow_broadcasts(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Note for the results of a call the broadcasts that they are computed from, and the one of the call itself."""
        numbers = {*range(self._next_number, len(self.broadcasts))}
        numbers.update(*(self._broadcast_numbers.get(id(t), ()) for t in inputs))
        self._next_number = len(self.broadcasts)
        for tensor in outputs:
            if tensor.is_floating_point():  # an index only chooses
                self._latest_numbers = numbers | self._broadcast_numbers.get(id(tensor), set())
                self._broadcast_numbers[id(tensor)] = self._latest_numbers

    def _follow_weights(self, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Note the result of the latest broadcast of weights, and the broadcasts whose result is summed as a whole."""
        latest = self.weight_broadcasts[-1] if self.weight_broadcasts else None
        if latest is not None and outputs and latest not in self._weighted.values():
            if prod(latest.output) == prod(latest.target) == self._batch_size:
                self._weighted[id(outputs[0])] = latest
        elif name in ("mean", "sum") and inputs and outputs[0].numel() == 1 and id(inputs[0]) in self._weighted:
            self.lost_weights.append(self._weighted[id(inputs[0])])

    def _is_crossed(self, selected: Tensor, inputs: list[Tensor]) -> bool:
        """Return whether a tensor has the values of each sample at the indices of all samples, which targets hold."""
        has_index = any(id(t) in self._target_ids and t.shape == selected.shape[1:] for t in inputs[1:])
        return has_index and selected.dim() == 2 and selected.shape[0] == selected.shape[1] == len(inputs[0])

    def _is_expanded_here(self, inputs: list[Tensor]) -> bool:
        """Return whether the line of a call that is about to run also gives one of its operands a new axis."""
        lines = [self._new_axis_lines[id(t)] for t in inputs if id(t) in self._new_axis_lines]
        return bool(lines) and get_line_from_frame(sys._getframe(3)) in lines

    def _split(self, inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return the inputs that derive from the output, those from the target, and those from both."""
        kinds = self._output_ids, self._target_ids, self._error_ids
        from_output, from_target, from_error = ([t for t in inputs if id(t) in ids] for ids in kinds)
        return from_output, from_target, from_error

    def _record(
        self, func: Any, inputs: list[Tensor], from_output: Tensor, from_target: Tensor, broadcasts: list[Broadcast]
    ) -> None:
        """Record the call if the broadcast is unintended."""
        name = getattr(func, "__name__", "").strip("_")
        if (
            not from_output.dim()
            or not from_target.dim()
            or from_output.shape == from_target.shape
            or name not in ELEMENTWISE_LOSSES | _ELEMENTWISE_OPERATORS
        ):
            return
        try:
            result_shape = torch.Size(torch.broadcast_shapes(from_output.shape, from_target.shape))  # type: ignore[no-untyped-call]
        except RuntimeError:
            return
        is_expanded = from_output.dim() != from_target.dim() and result_shape.numel() > max(
            from_output.numel(), from_target.numel()
        )
        is_crossed = id(from_output) in self._crossed_ids and from_target.shape == from_output.shape[1:]
        if is_expanded or is_crossed or name in ELEMENTWISE_LOSSES:
            line = get_line_from_frame(sys._getframe(3))
            shapes = tuple(from_output.shape), tuple(from_target.shape), tuple(result_shape)
            axis_lines = (self._axis_lines.get(id(t)) for t in (from_output, from_target) if 1 in t.shape)
            axis_line = next((made for made in axis_lines if made and line and made.function != line.function), None)
            is_output_first = inputs[0] is from_output if len(inputs) == 2 else None
            broadcasts.append(Broadcast(get_call_name(func), *shapes, line, axis_line, is_output_first))


class BroadcastRecorder(TorchFunctionMode):
    """Passes each call to a ``BroadcastTracker`` while active."""

    def __init__(self, output: list[Tensor], targets: list[Tensor]) -> None:
        super().__init__()
        self.tracker = BroadcastTracker(output, targets)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = tree_tensors((args, kwargs or {}))
        self.tracker.on_call(func, inputs)
        result = func(*args, **(kwargs or {}))
        self.tracker.on_result(func, inputs, tree_tensors(result))
        return result


@dataclass(frozen=True)
class FirstLayerCall:
    """One call that combines data with weights: the data, the axis of their features, the location.

    ``normalized`` is True if the result is normalized next, so that its scale does not matter.
    """

    data: Tensor
    axis: int
    module: str | None
    line: SourceLine | None
    normalized: bool = False

    @property
    def where(self) -> Location:
        """The location of this call."""
        return get_location(self.line, self.module)

    @property
    def features(self) -> Tensor:
        """The data with one row for each feature."""
        return self.data.movedim(self.axis, 0).flatten(1).float()


class FirstLayerRecorder(TorchFunctionMode):
    """Records each first-layer call while active, with the current submodule."""

    def __init__(self, stack: ModuleStack) -> None:
        super().__init__()
        self._stack = stack
        self.calls: list[FirstLayerCall] = []
        self._derived: MutableMapping[Tensor, int | None] = WeakTensorKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs, name = tree_tensors((args, kwargs or {})), getattr(func, "__name__", "").strip("_")
        result = func(*args, **(kwargs or {}))
        is_derived = any(isinstance(t, nn.Parameter) or t in self._derived for t in inputs)
        if not is_derived:
            return result
        outputs, number = tree_tensors(result), self._record(name, inputs)
        for tensor in outputs:
            self._derived[tensor] = number
        return result

    def _record(self, name: str, inputs: list[Tensor]) -> int | None:
        """Record a first-layer call and return its number, if it is one; mark the call that it normalizes."""
        data = next((t for t in inputs if not isinstance(t, nn.Parameter)), None)
        if data is None:
            return None
        number = self._derived.get(data)
        if name in _NORMALIZATION_CALLS and number is not None:
            self.calls[number] = replace(self.calls[number], normalized=True)
        if name not in _WEIGHTED_CALLS or data in self._derived or not data.is_floating_point() or data.dim() < 2:
            return None
        axis = 1 if name in _CONVOLUTION_CALLS else data.dim() - 1
        self.calls.append(
            FirstLayerCall(data.detach(), axis, self._stack.innermost, get_line_from_frame(sys._getframe(2)))
        )
        return len(self.calls) - 1


@dataclass(frozen=True)
class ModeDependentCall:
    """One mode-dependent call: whether it is active, its line, and the path and mode of the running submodule."""

    kind: _CallKind
    call: str
    is_active: bool
    line: SourceLine | None
    module: str | None
    training: bool

    @property
    def where(self) -> Location:
        """The location of this call."""
        return self.line.where(self.module or None) if self.line else Location(module=self.module or None)


class _ModeDependentCallRecorder(TorchFunctionMode):
    """Records every mode-dependent call while active, with the running submodule of ``_model``."""

    def __init__(self, model: nn.Module, stack: ModuleStack) -> None:
        super().__init__()
        self._model, self._stack = model, stack
        self.calls: list[ModeDependentCall] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        classified = _classify_call(func, args, kwargs)
        if classified is not None:
            kind, is_active = classified
            path = self._stack.innermost or ""
            training, line = self._model.get_submodule(path).training, get_line_from_frame(sys._getframe(1))
            self.calls.append(ModeDependentCall(kind, get_call_name(func), is_active, line, path, training))
        return func(*args, **kwargs)


def is_random_function(func: Any) -> bool:
    """Return whether a function of torch draws random numbers, other than dropout."""
    return func in _RANDOM_FUNCTIONS


def _classify_call(func: Any, args: Any, kwargs: Any) -> tuple[_CallKind, bool] | None:
    """Return the kind of a call and whether it is active; None for calls that depend on neither mode nor chance."""
    if func in _RANDOM_FUNCTIONS:
        return "draw", True
    if func in _DROPOUT_FUNCTIONS:
        rate = 1.0 if func is F.rrelu else _get_argument(func, args, kwargs, "p", 1, 0.5)
        training = _get_argument(func, args, kwargs, "training" if func.__module__ == F.__name__ else "train", 2, True)
        return ("dropout", bool(training)) if rate else None
    if func is F.scaled_dot_product_attention:
        return ("dropout", True) if _get_argument(func, args, kwargs, "dropout_p", 4, 0.0) else None
    if func is F.multi_head_attention_forward:
        rate, training = (_get_argument(func, args, kwargs, name, 0, None) for name in ("dropout_p", "training"))
        return ("dropout", bool(training)) if rate else None
    if func in _RECURRENT_FUNCTIONS:
        rate, training = _recurrent_dropout(args)
        return ("dropout", training) if rate else None
    if func is F.batch_norm:
        has_statistics = _get_argument(func, args, kwargs, "running_mean", 1, None) is not None
        training = _get_argument(func, args, kwargs, "training", 5, False)
        return ("batch statistics", bool(training)) if has_statistics else None
    return None


def _recurrent_dropout(args: tuple[Any, ...]) -> tuple[float, bool]:
    """Return the dropout rate and the mode of a recurrent call: before ``bidirectional``, and ``batch_first`` if any.

    Packed sequences have no ``batch_first``.
    """
    positions = (-4, -3) if isinstance(args[-3], bool) else (-3, -2)
    rate, training = (args[position] for position in positions)
    return float(rate), bool(training)


def _get_argument(func: Any, args: Any, kwargs: Any, name: str, position: int, default: Any) -> Any:
    """Return one argument of a call by name, from the signature if available, else by position."""
    try:
        bound = inspect.signature(func).bind(*args, **kwargs)
    except (ValueError, TypeError):
        return kwargs.get(name, args[position] if position < len(args) else default)
    bound.apply_defaults()
    return bound.arguments.get(name, default)


@contextmanager
def record_mode_dependent_calls(model: nn.Module, training: bool) -> Iterator[list[ModeDependentCall]]:
    """Put the whole model into one mode and record its mode-dependent calls in a block; then restore the modes."""
    stack = ModuleStack()
    recorder = _ModeDependentCallRecorder(model, stack)
    with stack.track(model), in_mode(model, training), recorder:
        yield recorder.calls


def compute_relative_difference(first: list[Tensor], second: list[Tensor]) -> float:
    """Return the largest difference between two outputs, relative to the largest value of the first."""
    differences = [0.0]
    for before, after in zip(first, second, strict=False):
        if before.shape != after.shape:
            return float("inf")
        if before.numel() and (before.is_floating_point() or before.is_complex()):
            difference = float((before - after).abs().nan_to_num().max())
            differences.append(difference / max(float(before.abs().nan_to_num().max()), 1e-12))
    return max(differences)
