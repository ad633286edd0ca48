"""The lowest loss of one constant prediction, for any loss: a numerical minimum over the user's own loss."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.fixed_outputs import find_fixed_parts, read_outputs, replace_tensors
from nbdebug.measurements.forward_pass import ForwardPass, class_axis
from nbdebug.measurements.loss_reference import ExpectedLoss
from nbdebug.measurements.oversized_tensors import MIN_SCALE, has_oversized_tensor
from nbdebug.measurements.perturbation import compute_loss
from nbdebug.measurements.random_batches import read_random_batches
from nbdebug.measurements.reading_limit import PATIENCE, ReadingLimit
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import dataset_length, reads_tensor_dataset
from nbdebug.setup.losses import LossKind, get_loss_kind, score_tensor
from nbdebug.tensors.pytree import tree_tensors

_MAX_ROWS, _MAX_VALUES, _MAX_CONSTANT_VALUES = 20_000, 5_000_000, 100_000
_MAX_BATCHES, _CHUNK_SIZE, _MAX_RELATIVE_ERROR = 8, 1024, 1e-4
_READ_SECONDS, _MIN_READ_ROWS = 0.1, 512
_FIT_SECONDS, _MIN_EVALUATIONS, _MAX_ITERATIONS = 0.5, 40, 40
_MAX_GROWTH = 1e3  # of a constant, relative to the outputs and targets: the loss has no minimum
_MIN_PROBABILITY = 1e-6
_LOSSES_OF_LOGITS = ("cross-entropy", "bce-with-logits")
_MIN_FLOOR_SHARE = 0.05  # of the loss of a constant prediction


@dataclass(frozen=True)
class _ConstantLoss:
    """The lowest loss that the same output for every sample can reach.

    ``rows`` is the number of rows whose targets were read; ``is_complete`` tells whether these are all. The value is
    corrected for the optimism of a constant that was fitted to these rows.
    """

    value: float
    rows: int
    is_complete: bool


@measurement
def constant_loss(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind,
    loss: Tensor,
    judging_weights: list[Tensor],
) -> _ConstantLoss:
    """The user's own loss at its minimum over one constant output, from the targets of 512 rows or more."""
    if setup.loss_fn is None or setup.step_fn is not None:
        raise NotChecked("needs a callable loss")
    if judging_weights:
        raise NotChecked("another network judges the outputs")
    size = max(first_pass.batch.size, 1)
    if positions := find_fixed_parts(setup, first_pass):
        return _constant_loss_beside_fixed_parts(setup, output, size, positions)
    merged, batches = _read_targets(setup, size)
    targets = [tensor for batch in batches for tensor in tree_tensors(batch.targets)]
    if not targets or all(bool((tensor == targets[0].flatten()[:1]).all()) for tensor in targets):
        raise NotChecked("the targets are all equal" if targets else "the batches have no targets")
    axes = _shared_axes(setup, first_pass, output, loss_kind)
    problem = _ConstantProblem(setup, output, axes, batches[:_MAX_BATCHES])
    if merged is not None and problem.is_mean_over_samples():
        problem = _ConstantProblem(setup, output, axes, [merged])
        targets = tree_tensors(merged.targets)
    fitted = problem.minimize(range(len(problem.batches)), time.perf_counter() + _FIT_SECONDS)
    rows = sum(batch.size for batch in problem.batches)
    is_complete = rows == dataset_length(setup.train_loader)
    value = fitted.value
    if not is_complete:
        value += _entropy_bias(targets) if loss_kind in ("cross-entropy", "nll") else problem.optimism(fitted)
    return _ConstantLoss(_validate(value), rows, is_complete)


def _constant_loss_beside_fixed_parts(setup: Setup, output: Any, size: int, positions: frozenset[int]) -> _ConstantLoss:
    """Return the lowest loss of a constant in the place of the parts of the output that the model computes."""
    outputs, batches = zip(*read_outputs(setup, size), strict=True)
    problem = _ConstantProblem(setup, output, (0,), batches, outputs, positions)
    fitted = problem.minimize(range(len(batches)), time.perf_counter() + _FIT_SECONDS)
    rows = sum(batch.size for batch in batches)
    return _ConstantLoss(_validate(fitted.value + problem.optimism(fitted)), rows, is_complete=False)


def _validate(value: float) -> float:
    if not math.isfinite(value) or value <= 0:
        raise NotChecked(f"the lowest loss of a constant prediction is {value:.3g}")
    return value


@slow_measurement
def own_loss_reference(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind,
    loss: Tensor,
    judging_weights: list[Tensor],
    expected_loss: ExpectedLoss | NotChecked,
) -> float:
    """The lowest loss of one constant output, where no formula gives it and a tensor of the model is oversized."""
    if isinstance(expected_loss, ExpectedLoss):
        raise NotChecked("a formula gives the loss of a constant prediction")
    if not has_oversized_tensor(setup, MIN_SCALE):
        raise NotChecked("no tensor of the model has an unusual scale")
    return float(constant_loss(setup, first_pass, output, loss_kind, loss, judging_weights).value)


@measurement
def loss_floor(
    setup: Setup, first_pass: ForwardPass, output: Any, loss_kind: LossKind, constant_loss: _ConstantLoss
) -> float:
    """The lowest loss that any outputs reach on the targets read: their entropy if they are soft, 0 for all others."""
    size = first_pass.batch.size
    if not isinstance(output, Tensor) or len(output) != size or not _are_soft(first_pass.batch.target, loss_kind):
        return 0.0
    merged, batches = _read_targets(setup, size)
    whole = [batch for batch in batches if batch.size == size][:_MAX_BATCHES] or [first_pass.batch]
    if merged is not None and _ConstantProblem(setup, output, (0,), whole).is_mean_over_samples():
        whole = [merged]
        output = output.detach().mean(0, keepdim=True).expand(merged.size, *output.shape[1:])
    deadline = time.perf_counter() + _FIT_SECONDS
    try:
        floors = [_ConstantProblem(setup, output, (), [batch]).minimize([0], deadline).value for batch in whole]
    except NotChecked:
        return 0.0
    value = sum(floors) / len(floors)
    return value if _MIN_FLOOR_SHARE * constant_loss.value < value < constant_loss.value else 0.0


def _are_soft(target: Any, loss_kind: LossKind) -> bool:
    """Return whether targets are real numbers for a loss whose lowest value may depend on them."""
    if not isinstance(target, Tensor) or not target.is_floating_point() or loss_kind in ("squared", "absolute", "nll"):
        return False
    return not bool(((target == 0) | (target == 1)).all())


def _read_targets(setup: Setup, size: int) -> tuple[Batch | None, list[Batch]]:
    """Return the targets of random training rows in one batch, and in batches of the size that the loop uses.

    Targets of different shapes cannot be merged.
    """
    read = list(
        read_random_batches(
            setup,
            "train",
            max_rows=_MAX_ROWS,
            batch_size=max(size, _CHUNK_SIZE) if reads_tensor_dataset(setup.train_loader) else size,
            max_values=_MAX_VALUES,
            limit=ReadingLimit(_READ_SECONDS, _MIN_READ_ROWS),
            as_sampled=True,
        )
    )
    merged = _merge_targets(read)
    if merged is None:
        return None, [batch for batch in read if batch.size == size] or read[:1]
    whole_batches = max(merged.size // size, 1)
    slices = [slice(size * number, size * (number + 1)) for number in range(whole_batches)]
    return merged, [Batch((), targets=tuple(column[part] for column in merged.targets)) for part in slices]


def _merge_targets(batches: Sequence[Batch]) -> Batch | None:
    """Return one batch with the targets of several and no inputs; None if they cannot be concatenated."""
    columns = zip(*(batch.targets for batch in batches), strict=True)
    try:
        return Batch((), targets=tuple(torch.cat(column) for column in columns))
    except (TypeError, ValueError, RuntimeError):
        return None


def _shared_axes(setup: Setup, first_pass: ForwardPass, output: Any, loss_kind: LossKind) -> tuple[int, ...]:
    """Return the axes of the scores along which the prediction is constant: all but the classes, or the samples."""
    scores = score_tensor(output)
    if isinstance(scores, Tensor) and loss_kind in ("cross-entropy", "nll"):
        axis = class_axis(setup, first_pass, output, loss_kind)
        return tuple(d for d in range(scores.dim()) if d != axis)
    return (0,)


@dataclass(frozen=True)
class _Fit:
    value: float
    constants: list[Tensor]


class _ConstantProblem:
    """The loss of constant outputs on some batches, as a function of the constants.

    Outputs that are probabilities remain probabilities: those between 0 and 1, as all targets are, and those that sum
    to 1. Outputs that the loss takes as logits are none. Parts of the output at ``fixed_positions`` are targets, masks
    and the like, which the model does not compute; then ``outputs`` are those of the batches.
    """

    def __init__(
        self,
        setup: Setup,
        output: Any,
        shared_axes: tuple[int, ...],
        batches: Sequence[Batch],
        outputs: Sequence[Any] = (),
        fixed_positions: frozenset[int] = frozenset(),
    ) -> None:
        self.setup, self.batches, self.outputs = setup, batches, outputs
        scores = score_tensor(output)
        self.output = scores if isinstance(scores, Tensor) and isinstance(output, Tensor) else output
        size = len(scores) if isinstance(scores, Tensor) and scores.dim() else 0
        tensors = tree_tensors(self.output)
        self.variable = [
            number
            for number, leaf in enumerate(tensors)
            if leaf.is_floating_point() and leaf.dim() > 0 and len(leaf) == size and number not in fixed_positions
        ]
        leaves = [tensors[number] for number in self.variable]
        if not leaves:
            raise NotChecked("the output has no tensor with one row per sample")
        axes = shared_axes if len(leaves) == 1 else (0,)
        self.axes = axes
        self.start = [
            leaf.detach().float().mean(axes, keepdim=True) if axes else leaf.detach().float() for leaf in leaves
        ]
        if sum(constant.numel() for constant in self.start) > _MAX_CONSTANT_VALUES:
            raise NotChecked("the output is too large to search for the best constant")
        self.prior = _log_frequencies(self.start[0], batches) if len(axes) + 1 == self.start[0].dim() else None
        parts = [tree_tensors(output) for output in outputs]
        self.targets = [part[number] for part in parts for number in fixed_positions]
        self.targets += [tensor for batch in batches for tensor in tree_tensors(batch.targets)]
        takes_probabilities = get_loss_kind(setup.loss_fn) not in _LOSSES_OF_LOGITS and _are_in_unit_range(self.targets)
        self.is_unit = [takes_probabilities and _is_in_unit_range(leaf) for leaf in leaves]
        self.is_distribution = [
            unit and leaf.dim() > 1 and leaf.shape[-1] > 1 and bool((leaf.sum(-1) - 1).abs().lt(1e-3).all())
            for unit, leaf in zip(self.is_unit, leaves, strict=True)
        ]
        self.scale = max(
            1.0, *(float(leaf.detach().abs().max()) for leaf in leaves), *(_largest(target) for target in self.targets)
        )

    def is_mean_over_samples(self) -> bool:
        """Return whether the loss of two batches together is the mean of both, as for most losses but not for sums."""
        joined = _merge_targets(self.batches[:2])
        if joined is None or len(self.batches) < 2:
            return False
        with torch.no_grad():
            apart = float(self.loss(self.start, range(2)))
            together = float(compute_loss(self.setup, self._expand(self.start, self.output, joined.size), joined))
        return abs(together - apart) <= _MAX_RELATIVE_ERROR * abs(apart)

    def minimize(self, positions: Sequence[int], deadline: float) -> _Fit:
        """Return the best constants for some batches."""
        best = min(
            (self._descend(start, positions, deadline) for start in self._starts(positions)), key=lambda fit: fit.value
        )
        if any(float(constant.abs().max()) > _MAX_GROWTH * self.scale for constant in best.constants):
            raise NotChecked("the loss has no minimum over constant predictions")
        return best

    def _starts(self, positions: Sequence[int]) -> Iterator[list[Tensor]]:
        """Yield the mean output or zeros, and the mean target where it can be an output.

        Zeros are better than the mean of outputs some of which a mask has replaced by a huge number.
        """
        zeros = [torch.zeros_like(constant) for constant in self.start]
        yield min((self.start, zeros), key=lambda start: self._level(start, positions))
        if self.prior is not None:
            yield [self.prior]
        if len(self.start) == 1 and len(self.batches[0].targets) == 1 and self.axes == (0,):
            targets = [batch.targets[0] for batch in self.batches]
            shapes = {
                (isinstance(t, Tensor) and t.is_floating_point(), tuple(getattr(t, "shape", ()))[1:]) for t in targets
            }
            if shapes == {(True, tuple(self.start[0].shape[1:]))}:
                yield [torch.cat(targets).float().mean(0, keepdim=True)]

    def _descend(self, start: list[Tensor], positions: Sequence[int], deadline: float) -> _Fit:
        """Return the minimum by L-BFGS from a start, stopped at the deadline, but not before some evaluations."""
        free = [self._to_free(number, constant).requires_grad_() for number, constant in enumerate(start)]
        optimizer = torch.optim.LBFGS(free, max_iter=_MAX_ITERATIONS, line_search_fn="strong_wolfe")
        best, evaluations = _Fit(math.inf, start), 0

        def closure() -> Tensor:
            nonlocal best, evaluations
            evaluations += 1
            patience = 0 if evaluations > _MIN_EVALUATIONS else (PATIENCE - 1) * _FIT_SECONDS
            if time.perf_counter() > deadline + patience and math.isfinite(best.value):
                raise TimeoutError
            optimizer.zero_grad()
            constants = [self._from_free(number, tensor) for number, tensor in enumerate(free)]
            loss = self.loss(constants, positions)
            if float(loss.detach()) < best.value:
                best = _Fit(float(loss.detach()), [constant.detach() for constant in constants])
            if loss.requires_grad:
                torch.autograd.backward(loss, inputs=free)  # and not the graph of weights that the loss reads
            return loss.detach()

        with torch.enable_grad():
            try:
                optimizer.step(closure)  # type: ignore[no-untyped-call]
            except TimeoutError:
                pass
            except RuntimeError as error:
                raise NotChecked(f"the loss of a constant prediction cannot be minimized: {error}") from None
        return best

    def _level(self, constants: Sequence[Tensor], positions: Sequence[int]) -> float:
        """Return the loss of constants, or infinity if it is not finite."""
        with torch.no_grad():
            loss = float(self.loss(constants, positions))
        return loss if math.isfinite(loss) else math.inf

    def loss(self, constants: Sequence[Tensor], positions: Sequence[int]) -> Tensor:
        """Return the mean loss of constants over some batches, with its graph."""
        batches = [self.batches[position] for position in positions]
        sizes = [batch.size for batch in batches]
        outputs = [self.outputs[position] if self.outputs else self.output for position in positions]
        losses = [
            compute_loss(self.setup, self._expand(constants, output, batch.size), batch)
            for output, batch in zip(outputs, batches, strict=True)
        ]
        weights = torch.tensor(sizes, dtype=torch.float32) / sum(sizes)
        return torch.stack([loss.float().reshape(()) for loss in losses]).cpu() @ weights

    def _expand(self, constants: Sequence[Tensor], output: Any, size: int) -> Any:
        """Return an output with constants in the place of its variable parts; ``size`` is that of another batch."""
        leaves = tree_tensors(output)
        return replace_tensors(
            output,
            {
                number: constant.to(leaves[number].dtype).expand(
                    len(leaves[number]) if self.outputs else size, *leaves[number].shape[1:]
                )
                for number, constant in zip(self.variable, constants, strict=True)
            },
        )

    def optimism(self, fitted: _Fit) -> float:
        """Return how much too low the loss of fitted constants is, by a fit on each half of the batches.

        A fit of d values to n rows is too low by about d/2n on its own rows and too high by as much on others, so the
        value is a third of the difference between a fit on half of the rows, evaluated on the others, and this one.
        """
        positions = range(len(self.batches))
        if len(positions) < 2:
            return 0.0
        halves, deadline = (positions[::2], positions[1::2]), time.perf_counter() + _FIT_SECONDS / 2
        with torch.no_grad():
            crossed = [
                float(self.loss(self.minimize(own, deadline).constants, other)) for own, other in (halves, halves[::-1])
            ]
        return max(float(np.mean(crossed)) - fitted.value, 0.0) / 3

    def _to_free(self, number: int, constant: Tensor) -> Tensor:
        """Return the unconstrained variables of a constant."""
        inside = constant.clamp(_MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
        if self.is_distribution[number]:
            return inside.log().clone()
        return inside.logit().clone() if self.is_unit[number] else constant.clone()

    def _from_free(self, number: int, free: Tensor) -> Tensor:
        if self.is_distribution[number]:
            return free.softmax(-1)
        return free.sigmoid() if self.is_unit[number] else free


def _is_in_unit_range(values: Tensor) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())


def _are_in_unit_range(targets: Sequence[Tensor]) -> bool:
    """Return whether no real target is below 0 or above 1; an untrained output between them may come by chance."""
    return all(_is_in_unit_range(target) for target in targets if target.is_floating_point())


def _log_frequencies(start: Tensor, batches: Sequence[Batch]) -> Tensor | None:
    """Return the logarithms of the class frequencies in the shape of a constant; None for other targets."""
    targets = [batch.target for batch in batches]
    if not all(isinstance(target, Tensor) and not target.is_floating_point() for target in targets):
        return None
    labels = torch.cat([target.flatten() for target in targets])
    labels = labels[(labels >= 0) & (labels < start.numel())]
    frequencies = torch.bincount(labels, minlength=start.numel()).float() / max(len(labels), 1)
    return frequencies.clamp_min(_MIN_PROBABILITY).log().reshape(start.shape).to(start.device)


def _largest(target: Tensor) -> float:
    """Return the largest absolute value of a real target."""
    return float(target.abs().max()) if target.numel() and target.is_floating_point() else 0.0


def _entropy_bias(targets: Sequence[Tensor]) -> float:
    """Return how much too low the entropy of the label frequencies of a sample is, in nats.

    By the estimator of Grassberger 2003, Entropy Estimates from Insufficient Samplings, arXiv:physics/0307138.
    """
    if targets[0].is_floating_point():
        return 0.0
    labels = torch.cat([target.flatten() for target in targets])
    counts = torch.bincount(labels[labels >= 0]).double()
    counts = counts[counts > 0]
    shares = counts / counts.sum()
    plug_in = -(shares * shares.log()).sum()
    signs = 1 - 2 * (counts % 2)
    terms = counts.digamma() + 0.5 * signs * (((counts + 1) / 2).digamma() - (counts / 2).digamma())
    return max(float(counts.sum().log() - (shares * terms).sum() - plug_in), 0.0)
