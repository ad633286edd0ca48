"""Record torch calls: all calls, first layers, and mode-dependent calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from nbdebug.autograd.tracing import ModuleStack, get_call_name
from nbdebug.finding import Location
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import SourceLine, get_line_from_frame, get_location
from nbdebug.tensors.pytree import tree_tensors

CONVOLUTION_CALLS = {f"conv{transposed}{axes}d" for transposed in ("", "_transpose") for axes in (1, 2, 3)}
SELECTION_CALLS = {"getitem", "index_select", "gather", "take_along_dim"}
_PRODUCT_CALLS = {"linear", "bilinear", "matmul", "rmatmul", "mm", "bmm", "addmm", "einsum"}
RECURRENT_CALLS = {f"{kind}{cell}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell")}
_WEIGHTED_CALLS = CONVOLUTION_CALLS | _PRODUCT_CALLS | RECURRENT_CALLS | {"multi_head_attention_forward"}
_NORMALIZATION_CALLS = {"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"}
_COMBINING_CALLS = {"add", "radd", "iadd", "sub", "rsub", "isub", "cat", "concat", "concatenate", "stack"}
_CallKind = Literal["dropout", "batch statistics", "draw"]
_DROPOUT_FUNCTIONS = (
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, F.rrelu,
    torch.dropout, torch.dropout_, torch.feature_dropout, torch.alpha_dropout,
)  # fmt: skip
_RECURRENT_FUNCTIONS = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
_STATEFUL_FUNCTIONS = (
    *_RECURRENT_FUNCTIONS, torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell,
)  # fmt: skip
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
    def real_outputs(self) -> tuple[Tensor, ...]:
        """The output tensors of real numbers."""
        return tuple(tensor for tensor in self.outputs if tensor.is_floating_point())

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
class FirstLayerCall:
    """One call that combines data with weights: the data, the axis of their features, the location.

    ``normalized`` is True if the result is normalized next and goes nowhere else, so that its scale does not matter: a
    residual connection carries it past the normalization. ``variable_share`` is the root mean square of the results
    without their mean over samples, relative to that of the results.
    """

    data: Tensor
    axis: int
    module: str | None
    line: SourceLine | None
    normalized: bool = False
    variable_share: float = 1.0

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
        self._combined: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs, name = tree_tensors((args, kwargs or {})), getattr(func, "__name__", "").strip("_")
        result = func(*args, **(kwargs or {}))
        is_derived = any(isinstance(t, nn.Parameter) or t in self._derived for t in inputs)
        if not is_derived:
            return result
        outputs = tree_tensors(result)
        number = self._record(name, inputs, outputs)
        for tensor in outputs:
            self._derived[tensor] = number
        return result

    def _record(self, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> int | None:
        """Record a first-layer call and return its number, if it is one; mark the call that it normalizes or reads."""
        if name in _COMBINING_CALLS or name in _WEIGHTED_CALLS:
            self._mark_combined(inputs)
        data = next((t for t in inputs if not isinstance(t, nn.Parameter)), None)
        if data is None or functorch.is_batchedtensor(data):
            return None  # within torch.vmap, no value can be read, now or later
        number = self._derived.get(data)
        if name in _NORMALIZATION_CALLS and number is not None and number not in self._combined:
            self.calls[number] = replace(self.calls[number], normalized=True)
        if name not in _WEIGHTED_CALLS or data in self._derived or not data.is_floating_point() or data.dim() < 2:
            return None
        axis = 1 if name in CONVOLUTION_CALLS else data.dim() - 1
        share = _variable_share(outputs[0].detach()) if outputs else 1.0
        line = get_line_from_frame(sys._getframe(2))
        self.calls.append(FirstLayerCall(data.detach(), axis, self._stack.innermost, line, variable_share=share))
        return len(self.calls) - 1

    def _mark_combined(self, inputs: list[Tensor]) -> None:
        """Mark the first-layer calls whose results another call adds, joins or multiplies by weights."""
        for number in {number for tensor in inputs if (number := self._derived.get(tensor)) is not None}:
            self._combined.add(number)
            self.calls[number] = replace(self.calls[number], normalized=False)


def _variable_share(values: Tensor) -> float:
    """Return the root mean square of values without the mean over samples, relative to that of all."""
    if functorch.is_batchedtensor(values) or not values.is_floating_point() or values.dim() < 2 or values.numel() == 0:
        return 1.0
    variance, mean = torch.var_mean(values, 0, correction=0)
    total = float((variance + mean.square()).mean())
    return float(variance.mean() / total) ** 0.5 if total > 0 else 1.0


@dataclass(frozen=True)
class ModeDependentCall:
    """One mode-dependent call: whether it is active, its line, and the path and mode of the running submodule.

    ``is_state`` is True for random numbers that a recurrent layer takes as its initial state.
    """

    kind: _CallKind
    call: str
    is_active: bool
    line: SourceLine | None
    module: str | None
    training: bool
    is_state: bool = False

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
        self._drawn: MutableMapping[Tensor, frozenset[int]] = WeakTensorKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _STATEFUL_FUNCTIONS:
            self._mark_states(args)
        classified = _classify_call(func, args, kwargs)
        if classified is not None:
            kind, is_active = classified
            path = self._stack.innermost or ""
            training, line = self._model.get_submodule(path).training, get_line_from_frame(sys._getframe(1))
            self.calls.append(ModeDependentCall(kind, get_call_name(func), is_active, line, path, training))
        result = func(*args, **kwargs)
        if self.calls:
            self._record_drawn(classified is not None and classified[0] == "draw", args, kwargs, result)
        return result

    def _record_drawn(self, is_draw: bool, args: Any, kwargs: Any, result: Any) -> None:
        """Record the results that are random numbers, or computed from nothing but these."""
        inputs = [tensor for tensor in tree_tensors((args, kwargs)) if tensor.is_floating_point()]
        draws = [self._drawn.get(tensor) for tensor in inputs]
        numbers = [number for draw in draws for number in draw or ()] if all(draws) else []
        numbers = [len(self.calls) - 1] if is_draw else numbers
        for tensor in tree_tensors(result) if numbers else ():
            self._drawn[tensor] = frozenset(numbers)

    def _mark_states(self, args: tuple[Any, ...]) -> None:
        """Mark the draws of the initial state, the second argument of a layer, or the third one of a packed batch."""
        for tensor in tree_tensors(args[1:3]):
            numbers = self._drawn.get(tensor, frozenset())
            if numbers and not functorch.is_batchedtensor(tensor) and bool((tensor != tensor.flatten()[:1]).any()):
                for number in numbers:
                    self.calls[number] = replace(self.calls[number], is_state=True)


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
