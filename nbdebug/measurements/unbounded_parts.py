"""Losses that a part beside the prediction lowers without end, whatever is predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_inputs import LossInput, copy_output, get_loss_inputs, output_tensors
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.sign_trials import find_sign_change
from nbdebug.measurements.term_lines import nonlinear_line, unbounded_term_line
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.setup import maximizing_optimizer
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_SIZES = (10.0, 30.0, 100.0)
_MIN_SLOPE_RATIO, _LINEAR_TOLERANCE = 0.9, 1e-3
_MAX_TENSORS, _MIN_VALUES, _DIRECTIONS = 12, 8, 8
_SUM_TOLERANCE = 1e-3
_SHIFTS = (0.1, 1.0)  # from the target, in standard deviations
_Replacement = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class UnboundedPart:
    """A part that lowers the loss without end, the values tried, and the loss as it is and for each of them.

    ``line`` is that of the term with a wrong sign. Where the loss falls as the part becomes larger, it is the term that
    itself falls without end. Where the loss falls as the part becomes smaller, it is the first that makes something of
    the part which is not proportional to it: a logarithm of a scale should fall, and what grows with the scale should
    shrink. ``sign_change`` is the only change of a sign there with which no part lowers the loss without end and the
    predictions stay what they are.
    """

    name: str
    values: tuple[float, ...]
    first: float
    losses: tuple[float, ...]
    batches: int
    line: SourceLine | None
    sign_change: tuple[Edit, ...] = ()

    @property
    def direction(self) -> str:
        """The direction in which the loss falls."""
        return "larger" if self.values[-1] > self.values[0] else "smaller"


@dataclass(frozen=True)
class _PredictedPart:
    """A tensor of the output, or the column after ``start``, that the loss compares with a target."""

    leaf: int
    target: int
    start: int | None = None

    def columns(self, width: int) -> frozenset[int]:
        return frozenset() if self.start is None else frozenset(range(self.start, self.start + width))

    def replacement(self, values: Tensor) -> _Replacement:
        def replace(copy: Tensor) -> Tensor:
            if self.start is None:
                return values.reshape(copy.shape).to(copy)
            part = copy[..., self.start : self.start + _width(copy, values)]
            part.copy_(values.reshape(part.shape))
            return copy

        return replace


@measurement
def unbounded_part(
    setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor, batches: list[Batch]
) -> UnboundedPart | None:
    """A part of the output, or a parameter of the loss, that lowers the loss without end while predictions are wrong.

    A likelihood has no lower bound for perfect predictions only. So the part grows while the predictions are those of
    the model, then all equal to the largest target, then to the smallest: weights of both signs, such as advantages,
    would lower the loss for one of these only. A loss that is linear in a part takes it for a score, such as a
    log-determinant, and does not count.
    """
    tensors = _get_tensors(setup, first_pass, output, loss)
    predictions = _find_predictions(setup, output, first_pass.batch)
    found = _find_unbounded(setup, first_pass, output, tensors, batches, predictions)
    if found is None:
        return None
    part, values, losses = found
    line = nonlinear_line(setup, part, output, first_pass.batch)
    if values[-1] > values[0]:
        line = unbounded_term_line(setup, part, _SIZES, output, first_pass.batch) or line

    def is_mended() -> bool:
        is_same = _find_predictions(setup, output, first_pass.batch) == predictions
        return is_same and _find_unbounded(setup, first_pass, output, tensors, batches, predictions) is None

    first, sign_change = float(loss.detach()), find_sign_change(line, is_mended)
    return UnboundedPart(part.name, values, first, losses, min(len(batches), 2), line, sign_change)


def _find_unbounded(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    tensors: list[Tensor],
    batches: list[Batch],
    predictions: list[_PredictedPart],
) -> tuple[LossInput, tuple[float, ...], tuple[float, ...]] | None:
    """Return the first part that lowers the loss without end, with the values tried and the loss for each of them."""
    targets = _get_targets(first_pass.batch)
    predicted: dict[int, frozenset[int]] = {}
    for prediction in predictions:
        width = _width(tensors[prediction.leaf], targets[prediction.target])
        predicted[prediction.leaf] = predicted.get(prediction.leaf, frozenset()) | prediction.columns(width)
    for part in get_loss_inputs(setup, first_pass, predicted, with_columns=len(tensors) == 1):
        for sign in (-1.0, 1.0):
            if found := _try_direction(setup, part, sign, output, batches, predictions):
                return part, *found
    return None


@dataclass(frozen=True)
class UnboundedOutput:
    """A loss that falls without end in each of some random ``directions`` of the output, with the losses for each size.

    The sizes are standard deviations of the output before it is made log-probabilities or positive, where the model's
    outputs are, and the losses the highest of all directions and batches.
    """

    directions: int
    sizes: tuple[float, ...]
    first: float
    losses: tuple[float, ...]


@measurement
def unbounded_output(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss: Tensor,
    batches: list[Batch],
    judging_weights: list[Tensor],
) -> UnboundedOutput | None:
    """A loss that falls without end wherever the output goes, as a log-likelihood without its minus sign does.

    A score to maximize falls in a direction and rises in the opposite one. A critic may rate all outputs far away
    alike, so that its score is not judged. A loss that is proportional to a target, as that of a policy to its rewards,
    takes its sign from it and does not count.
    """
    tensors = _get_tensors(setup, first_pass, output, loss)
    if len(tensors) > 1 or not tensors[0].is_floating_point() or tensors[0].numel() < _MIN_VALUES:
        raise NotChecked("the output is not one tensor")
    if judging_weights:
        raise NotChecked("another network judges the outputs")
    if _is_proportional_to_target(setup, output, first_pass.batch):
        return None
    generator, highest = torch.Generator().manual_seed(0), [-math.inf] * len(_SIZES)
    for number, batch in enumerate(batches[:2]):
        own_output = output if number == 0 else _predict(setup, batch)
        scores = output_tensors(own_output)[0].detach()
        scale, base = max(float(scores.std()), 1.0), _loss(setup, None, None, own_output, batch)
        project = _get_projection(scores)
        for _ in range(_DIRECTIONS // 2):
            direction = scale * torch.randn(scores.shape, generator=generator).to(scores)
            for sign in (-1.0, 1.0):
                moves = [_PredictedPart(0, 0).replacement(project(sign * size * direction)) for size in _SIZES]
                losses = tuple(_loss(setup, None, None, copy_output(own_output, {0: move}), batch) for move in moves)
                if not _is_endless(base, losses):
                    return None
                highest = [max(pair) for pair in zip(highest, losses, strict=True)]
    return UnboundedOutput(_DIRECTIONS, _SIZES, float(loss.detach()), tuple(highest))


def _get_projection(output: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function to the values that the output may have: log-probabilities, positive numbers, or any numbers.

    A loss may have no lower bound elsewhere, as that of connectionist temporal classification for outputs that are no
    log-probabilities.
    """
    for dim in range(output.dim()):
        if float(output.logsumexp(dim).abs().max()) < _SUM_TOLERANCE:
            return partial(torch.log_softmax, dim=dim)
    if bool((output >= 0).all()):
        if bool((output <= 1).all()):
            raise NotChecked("the output is bounded")
        return torch.abs
    return torch.clone


def _is_proportional_to_target(setup: Setup, output: Any, batch: Batch) -> bool:
    """Check whether the loss doubles with a real-valued target."""
    base = _loss(setup, None, None, output, batch)
    for target in _get_targets(batch):
        targets = tree_map(batch.targets, partial(_double, target))
        doubled = _loss(setup, None, None, output, replace(batch, targets=targets))
        if target.is_floating_point() and math.isclose(doubled, 2 * base, rel_tol=_LINEAR_TOLERANCE):
            return True
    return False


def _double(target: Tensor, leaf: Any) -> Any:
    return 2 * leaf if leaf is target else leaf


def _get_tensors(setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor) -> list[Tensor]:
    """Return the tensors of the output; raise NotChecked unless one optimizer minimizes a loss of them and targets."""
    if setup.loss_fn is None or setup.step_fn is not None or len(setup.optimizers) > 1:
        raise NotChecked("the loss is not a function of the output that one optimizer minimizes")
    if maximizing_optimizer(setup) is not None:
        raise NotChecked("the optimizer maximizes the loss")
    tensors = output_tensors(output)
    if not first_pass.batch.targets or not 0 < len(tensors) <= _MAX_TENSORS or not bool(loss.isfinite()):
        raise NotChecked("needs targets, an output of tensors and a finite loss")
    return tensors


def _try_direction(
    setup: Setup, part: LossInput, sign: float, output: Any, batches: Sequence[Batch], predictions: list[_PredictedPart]
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return the values tried and the losses if these fall without end for the predictions of two batches."""
    losses = _fall(setup, part, sign, output, batches[0])
    if losses is None or _is_linear(setup, part, sign, output, batches[0]):
        return None
    for number, batch in enumerate(batches[:2]):
        own_output = output if number == 0 else _predict(setup, batch)
        for replaced in _replace_predictions(own_output, batch, predictions):
            if _fall(setup, part, sign, replaced, batch) is None:
                return None
    return tuple(part.at(sign * size) for size in _SIZES), losses


def _predict(setup: Setup, batch: Batch) -> Any:
    with Preserve(setup.eager_model), torch.no_grad():
        seed_all(0)
        return setup.predict(batch)


def _fall(setup: Setup, part: LossInput, sign: float, output: Any, batch: Batch) -> tuple[float, ...] | None:
    """Return the losses for growing sizes if they fall at least linearly, to below zero; None otherwise."""
    base = _loss(setup, part, None, output, batch)
    last = _loss(setup, part, sign * _SIZES[-1], output, batch)
    if not math.isfinite(base) or not last < -abs(base):
        return None
    losses = (*(_loss(setup, part, sign * size, output, batch) for size in _SIZES[:-1]), last)
    return losses if _is_endless(base, losses) else None


def _is_endless(base: float, losses: Sequence[float]) -> bool:
    """Check whether the losses for growing sizes fall at least linearly, to below zero."""
    slopes = [
        (before - after) / (larger - smaller)
        for before, after, smaller, larger in zip(losses, losses[1:], _SIZES, _SIZES[1:], strict=False)
    ]
    is_falling = losses[0] < base and slopes[0] > 0 and slopes[1] >= _MIN_SLOPE_RATIO * slopes[0]
    return losses[-1] < -abs(base) and is_falling


def _is_linear(setup: Setup, part: LossInput, sign: float, output: Any, batch: Batch) -> bool:
    """Check whether the loss rises in one direction as it falls in the other."""
    below, center, above = (_loss(setup, part, sign * size, output, batch) for size in (-_SIZES[0], 0.0, _SIZES[0]))
    bend, rise = above + below - 2 * center, above - below
    return math.isfinite(bend) and abs(bend) <= _LINEAR_TOLERANCE * abs(rise)


def _loss(setup: Setup, part: LossInput | None, size: float | None, output: Any, batch: Batch) -> float:
    """Return the loss with a part at some size; nan for a loss that rejects such values."""
    try:
        if part is None:
            return _evaluate(setup, copy_output(output), batch)
        with part.set_to(output, None if size is None else part.at(size)) as replaced:
            return _evaluate(setup, replaced, batch)
    except Exception:
        return math.nan


def _evaluate(setup: Setup, output: Any, batch: Batch) -> float:
    seed_all(0)
    with torch.no_grad():
        return float(setup.loss(output, batch))


def _replace_predictions(output: Any, batch: Batch, predictions: list[_PredictedPart]) -> Iterator[Any]:
    """Yield the output as it is, and with all predictions equal to the largest and to the smallest target."""
    yield output
    targets = _get_targets(batch)
    for extreme in (torch.amax, torch.amin) if predictions else ():
        replaced = output
        for prediction in predictions:
            target = targets[prediction.target]
            values = extreme(target, dim=0, keepdim=True).expand_as(target)
            replaced = copy_output(replaced, {prediction.leaf: prediction.replacement(values)})
        yield replaced


def _get_targets(batch: Batch) -> list[Tensor]:
    return tree_tensors(batch.targets)


def _find_predictions(setup: Setup, output: Any, batch: Batch) -> list[_PredictedPart]:
    """Return the parts of the output at which the loss is minimal if they equal a real-valued target.

    Raises NotChecked if a target that no part predicts has values of both signs: it may be a weight.
    """
    predictions: list[_PredictedPart] = []
    tensors, targets = output_tensors(output), _get_targets(batch)
    for number, target in enumerate(targets):
        if not _is_real_valued(target):
            continue
        candidates = [
            _PredictedPart(leaf, number, start)
            for leaf, tensor in enumerate(tensors)
            for start in _candidate_starts(tensor, target)
        ]
        own = [candidate for candidate in candidates if _is_minimal(setup, output, batch, candidate, target)]
        if not own and bool((target < 0).any()):
            raise NotChecked("a real-valued target is not predicted by any part of the output")
        predictions += own
    return predictions


def _is_real_valued(target: Tensor) -> bool:
    has_values = target.is_floating_point() and target.dim() > 0 and target.numel() > 1
    return has_values and not bool(((target == 0) | (target == 1)).all()) and float(target.std()) > 0


def _candidate_starts(tensor: Tensor, target: Tensor) -> list[int | None]:
    """Return the first columns of the parts of a tensor that have the shape of a target; None for the whole tensor."""
    if not tensor.is_floating_point():
        return []
    if [size for size in tensor.shape if size > 1] == [size for size in target.shape if size > 1]:
        return [None]
    width = _width(tensor, target)
    if tensor.dim() < 2 or tensor.shape[:-1] not in (target.shape, target.shape[:-1]) or tensor.shape[-1] <= width:
        return []
    return [*range(0, tensor.shape[-1] - width + 1, width)]


def _width(tensor: Tensor, target: Tensor) -> int:
    """Return the number of columns of a tensor that a target with one axis less, or as many, needs."""
    return target.shape[-1] if tensor.dim() == target.dim() else 1


def _is_minimal(setup: Setup, output: Any, batch: Batch, candidate: _PredictedPart, target: Tensor) -> bool:
    """Check whether the loss is minimal where a part equals a target, for the other parts as they are or all zero.

    They may have left the range in which the prediction matters.
    """
    std = float(target.std())
    zeros = copy_output(output, dict.fromkeys(range(len(output_tensors(output))), torch.zeros_like))

    def loss_at(shift: float, others: Any) -> float:
        replacement = candidate.replacement(target + shift * std)
        return _loss(setup, None, None, copy_output(others, {candidate.leaf: replacement}), batch)

    def is_lowest(others: Any) -> bool:
        lowest = loss_at(0.0, others)
        losses = [[loss_at(sign * shift, others) for shift in _SHIFTS] for sign in (-1, 1)]
        return all(lowest < near < far for near, far in losses)

    return is_lowest(output) or is_lowest(zeros)
