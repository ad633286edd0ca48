"""Random numbers that a loss takes for its target, followed from their draw through the torch calls of a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from nbdebug.autograd.broadcasts import ELEMENTWISE_LOSSES
from nbdebug.autograd.call_recorders import is_random_function
from nbdebug.autograd.tracing import PYTHON_CONVERSIONS, get_call_name
from nbdebug.loop_monitor.write_trace import is_plain_tensor, writes_to_first_argument
from nbdebug.source.location import SourceLine, get_running_line
from nbdebug.source.references import user_frames
from nbdebug.tensors.pytree import tree_tensors

_DIFFERENCES = {"sub", "rsub", "isub", "subtract"}
_MIN_VALUES, _MAX_VALUES = 32, 2**21
_MIN_CORRELATION = 0.5  # of a target with the draw that it is made from, or of two draws from the same seed
_MAX_MEAN = 0.5  # of the target, in standard deviations: smoothed labels carry information in their mean


@dataclass(frozen=True)
class SeparateDraws:
    """A target of ``values`` numbers that ``call`` draws, while another draw of that shape reaches the prediction.

    ``line`` is where to use one draw for both: the line by which the function that draws the target leads to the other
    draw, or else the line of that draw. The two are correlated by ``correlation``.
    """

    values: int
    call: str
    correlation: float
    target_line: SourceLine | None
    line: SourceLine | None


@dataclass(frozen=True)
class DrawnInputs:
    """Inputs of the model that come from random draws alone, while the loss depends on the batch.

    ``shape`` is that of an input of the batch, and ``call`` draws it on ``line``.
    """

    shape: tuple[int, ...]
    call: str
    line: SourceLine | None


@dataclass(frozen=True)
class _Draw:
    """Real random numbers: a copy, the function that drew them, and the user's stack, innermost first."""

    values: Tensor
    call: str
    stack: tuple[SourceLine, ...]


@dataclass(frozen=True)
class _Origin:
    """What a tensor is computed from: draws by number, data, parameters, and compared pairs by number."""

    draws: frozenset[int] = frozenset()
    has_data: bool = False
    has_parameters: bool = False
    comparisons: frozenset[int] = frozenset()


_UNKNOWN = _Origin()


@dataclass
class DrawTrace:
    """Follows draws, data and parameters to the loss, through the values that torch calls compute.

    A draw whose values are read into Python may reach the model by a way that no torch call shows.
    """

    origins: MutableMapping[Tensor, _Origin] = field(default_factory=WeakTensorKeyDictionary)  # keeps no memory in use
    draws: list[_Draw] = field(default_factory=list)
    comparisons: list[tuple[Tensor, _Origin, _Origin]] = field(default_factory=list)
    read_draws: set[int] = field(default_factory=set)

    def add_data(self, values: Any) -> None:
        """Follow the tensors of a batch."""
        self.origins.update((tensor, _Origin(has_data=True)) for tensor in tree_tensors(values))

    def on_result(
        self, func: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor], frame: FrameType | None
    ) -> None:
        """Follow the values of a call that has returned."""
        name = str(getattr(func, "__name__", ""))
        if name in PYTHON_CONVERSIONS:
            self.read_draws.update(number for tensor in inputs for number in self.origin(tensor).draws)
        is_random = is_random_function(func)
        is_shaped_like = name.endswith("_like") or name.startswith("new_") or (is_random and name.endswith("_"))
        sources = inputs[1:] if is_shaped_like else inputs
        results = [*outputs, *(inputs[:1] if writes_to_first_argument(func) else ())]
        origin = self.combine(sources)
        if name.strip("_") in ELEMENTWISE_LOSSES | _DIFFERENCES:
            origin = self.compare(sources[:2], origin)
        if is_random and outputs and _is_followed(outputs[0]):
            stack = tuple(map(get_running_line, user_frames(frame)))
            self.draws.append(_Draw(outputs[0].detach().clone(), get_call_name(func), stack))
            draws = origin.draws | {len(self.draws) - 1}
            origin = _Origin(draws, origin.has_data, origin.has_parameters)
        if origin != _UNKNOWN or is_shaped_like:
            self.origins.update((tensor, origin) for tensor in results)

    def origin(self, tensor: Tensor) -> _Origin:
        """Return what a tensor is computed from, as far as the trace shows it."""
        is_parameter = isinstance(tensor, nn.Parameter) or (tensor.requires_grad and tensor.is_leaf)
        return _Origin(has_parameters=True) if is_parameter else self.origins.get(tensor, _UNKNOWN)

    def combine(self, tensors: Sequence[Tensor]) -> _Origin:
        """Return what the result of a call is computed from.

        A comparison that meets parameters again, other than those of another term, is no part of a loss.
        """
        origins = [(tensor, self.origin(tensor)) for tensor in tensors]
        comparisons = frozenset[int]().union(*(origin.comparisons for _, origin in origins))
        is_layer = any(o.has_parameters and not o.comparisons and tensor.numel() > 1 for tensor, o in origins)
        return _Origin(
            frozenset[int]().union(*(origin.draws for _, origin in origins)),
            any(origin.has_data for _, origin in origins),
            any(origin.has_parameters for _, origin in origins),
            frozenset() if is_layer else comparisons,
        )

    def compare(self, operands: Sequence[Tensor], origin: _Origin) -> _Origin:
        """Note the comparison of a prediction with a target that is made of draws, and return its own origin."""
        if len(operands) != 2 or operands[0].shape != operands[1].shape:
            return origin
        for prediction, target in (operands, operands[::-1]):
            predicted, drawn = self.origin(prediction), self.origin(target)
            is_drawn = drawn.draws and not drawn.has_data and not drawn.has_parameters
            if predicted.has_parameters and is_drawn and _is_followed(target) and not target.requires_grad:
                self.comparisons.append((target.detach().clone(), predicted, drawn))
                number = frozenset({len(self.comparisons) - 1})
                return _Origin(origin.draws, origin.has_data, True, number)
        return origin

    def find_separate_draws(self, loss: Tensor) -> SeparateDraws | None:
        """Return the draws of the first target of a loss that is drawn apart from what its prediction depends on."""
        found = (self.judge(*self.comparisons[number]) for number in sorted(self.origin(loss).comparisons))
        return next(filter(None, found), None)

    def find_drawn_inputs(self, arguments: Sequence[Tensor], batch: Sequence[Tensor]) -> DrawnInputs | None:
        """Return the draws that make all arguments of a pass, of which the first has the shape of a part of a batch."""
        origins = [self.origin(argument) for argument in arguments]
        is_drawn = all(o.draws and not o.has_data and not o.has_parameters for o in origins)
        has_shape = any(part.is_floating_point() and part.shape == arguments[0].shape for part in batch if arguments)
        if not is_drawn or not has_shape or arguments[0].requires_grad:
            return None
        draw = self.draws[max(origins[0].draws)]
        return DrawnInputs(tuple(arguments[0].shape), draw.call, draw.stack[0] if draw.stack else None)

    def judge(self, target: Tensor, predicted: _Origin, drawn: _Origin) -> SeparateDraws | None:
        """Return the draws of a target and of its prediction if they have nothing in common."""
        if target.numel() < _MIN_VALUES or not _varies_around_zero(target):
            return None
        own = self.related_draws(drawn.draws, target)
        if not own or not own.isdisjoint(predicted.draws | self.read_draws):
            return None
        draw = self.draws[max(own)]
        others = [
            other
            for other in (self.draws[number] for number in sorted(predicted.draws))
            if other.values.shape == draw.values.shape
        ]
        correlations = [_correlate(other.values, draw.values) for other in others]
        if not others or max(map(abs, correlations)) >= _MIN_CORRELATION:
            return None
        other, target_line = others[0], draw.stack[0] if draw.stack else None
        line = _leading_line(draw.stack, other.stack) or (other.stack[0] if other.stack else None)
        return SeparateDraws(target.numel(), draw.call, correlations[0], target_line, line)

    def related_draws(self, numbers: Iterable[int], target: Tensor) -> frozenset[int]:
        """Return those of some draws that have the values of a target, apart from their scale."""
        return frozenset(
            number
            for number in numbers
            if self.draws[number].values.numel() == target.numel()
            and abs(_correlate(self.draws[number].values, target)) >= _MIN_CORRELATION
        )


def _is_followed(values: Tensor) -> bool:
    return is_plain_tensor(values) and values.is_floating_point() and values.numel() <= _MAX_VALUES


def _varies_around_zero(target: Tensor) -> bool:
    std = float(target.double().std())
    return math.isfinite(std) and abs(float(target.double().mean())) <= _MAX_MEAN * std


def _correlate(first: Tensor, second: Tensor) -> float:
    """Return the correlation of two tensors with as many values each; 0 if one of them is constant."""
    pair = torch.stack([values.detach().double().flatten().cpu() for values in (first, second)])
    correlation = float(torch.corrcoef(pair)[0, 1])
    return correlation if math.isfinite(correlation) else 0.0


def _leading_line(stack: Sequence[SourceLine], other: Sequence[SourceLine]) -> SourceLine | None:
    """Return the line by which the function at the top of a stack leads to the top of another one, if it does."""
    depth = len(stack)
    if not depth or len(other) < depth or tuple(other[-depth:][1:]) != tuple(stack[1:]):
        return None
    line = other[-depth]
    return line if (line.file, line.function) == (stack[0].file, stack[0].function) else None
