"""The lines of a loss where a part of the output becomes nonlinear, and where a term falls without end as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.measurements.loss_inputs import LossInput
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.source.location import SourceLine

_MIN_SLOPE_RATIO = 0.5  # between the last two values and the first two: a bounded result has a flatter end
_RecordedResults = list[tuple[TorchCall, tuple[Tensor, ...]]]


def nonlinear_line(setup: Setup, part: LossInput, output: Any, batch: Batch) -> SourceLine | None:
    """Return the line of the first call of the loss whose result is not linear in the part."""
    steps = (-1.0, 0.0, 1.0) if part.domain == "real" else (0.5, 1.0, 1.5)
    below, center, above = (_record(setup, part, part.scale * step, output, batch) for step in steps)
    for (call, low), (_, middle), (_, high) in zip(below, center, above, strict=False):
        for values in zip(low, middle, high, strict=False):
            if call.line is not None and _bends(*values):
                return call.line
    return None


def _bends(low: Tensor, middle: Tensor, high: Tensor) -> bool:
    """Check whether values at the same distance from each other are no arithmetic sequence."""
    has_shape = low.shape == middle.shape == high.shape
    return has_shape and not torch.allclose(low + high, 2 * middle, rtol=1e-4, atol=1e-5, equal_nan=True)


@dataclass(frozen=True)
class _TermCall:
    """A call whose mean result moves without end, by ``change`` in all; ``joins`` others that move with the part."""

    call: TorchCall
    change: float
    joins: bool


def unbounded_term_line(
    setup: Setup, part: LossInput, sizes: Sequence[float], output: Any, batch: Batch
) -> SourceLine | None:
    """Return the line of the term that falls without end as the part grows to three ``sizes``.

    From the loss, the calls are followed backward through the operand that moves most without end. The term is the
    first of them that falls, or that joins this operand with others that depend on the part.
    """
    low, middle, high = (_record(setup, part, part.at(size), output, batch) for size in sizes)
    means: dict[int, tuple[float, ...]] = {}
    makers: dict[int, TorchCall] = {}
    for (call, _), *results in zip(high, low, middle, high, strict=False):
        for tensor, *numbers in zip(call.real_outputs, *(own for _, own in results), strict=False):
            if id(tensor) not in makers and all(number.numel() for number in numbers):
                makers[id(tensor)] = call
                means[id(tensor)] = tuple(float(number.mean()) for number in numbers)
    falling = [id(tensor) for call, _ in high for tensor in call.real_outputs if _falls(means.get(id(tensor)), sizes)]
    steps = _follow(falling[-1], makers, means, sizes) if falling else []
    return next((step.call.line for step in reversed(steps) if step.change < 0 or step.joins), None)


def _follow(
    key: int, makers: dict[int, TorchCall], means: dict[int, tuple[float, ...]], sizes: Sequence[float]
) -> list[_TermCall]:
    """Return the calls that lead from the part to a result, the latest first."""
    steps: list[_TermCall] = []
    visited: set[int] = set()
    following: int | None = key
    while following is not None and following not in visited:
        visited.add(following)
        call, change = makers[following], means[following][-1] - means[following][0]
        operands = dict.fromkeys(id(tensor) for tensor in call.inputs if id(tensor) in makers)
        moving = [operand for operand in operands if operand not in visited and len(set(means[operand])) > 1]
        endless = [operand for operand in moving if _moves_without_end(means[operand], sizes)]
        steps.append(_TermCall(call, change, len(moving) > 1))
        following = max(endless, key=lambda operand: abs(means[operand][-1] - means[operand][0]), default=None)
    return steps


def _falls(numbers: tuple[float, ...] | None, sizes: Sequence[float]) -> bool:
    return numbers is not None and numbers[-1] < numbers[0] and _moves_without_end(numbers, sizes)


def _moves_without_end(numbers: Sequence[float], sizes: Sequence[float]) -> bool:
    """Check whether results for three sizes move in one direction, and do not level off."""
    first, last = ((numbers[index + 1] - numbers[index]) / (sizes[index + 1] - sizes[index]) for index in range(2))
    return first * last > 0 and abs(last) >= _MIN_SLOPE_RATIO * abs(first)


def _record(setup: Setup, part: LossInput, value: float, output: Any, batch: Batch) -> _RecordedResults:
    """Return the calls of the loss, each with copies of the real values that it returns."""
    calls: _RecordedResults = []

    def on_call(call: TorchCall) -> None:
        calls.append((call, tuple(tensor.detach().clone().double() for tensor in call.real_outputs)))

    seed_all(0)
    with part.set_to(output, value) as replaced, torch.no_grad(), CallRecorder(ModuleStack(), on_call):
        setup.loss(replaced, batch)
    return calls
