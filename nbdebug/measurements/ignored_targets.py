"""Values and columns of the target that have no influence on the loss, and columns of the output without a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass, get_extra_axes
from nbdebug.measurements.loss_gradient import LossCall, compute_output_gradients
from nbdebug.measurements.registry import measurement
from nbdebug.setup.losses import score_tensor
from nbdebug.tensors.pytree import tree_tensors

_MAX_DISTINCT, _MIN_SAMPLES = 10, 2
_MIN_TRIALS = 3
_SHARE_TOLERANCE = 1e-3
_MIN_LEARNED_SHARE = 0.5  # of the samples with other values; within a margin, a sample has no gradient
_MIN_ROWS, _MAX_COLUMNS = 8, 64
# A change of some rows of an output, in its standard deviations, seldom crosses a threshold, and never in all trials.
_SMALL_CHANGE, _MAX_CHANGED_ROWS = 1e-3, 64


@dataclass(frozen=True)
class IgnoredTarget:
    """A ``value`` of the target whose ``samples`` of a batch have no influence; ``others`` are the other values.

    For a class at each position of a sample (``is_dense``), and for flags of 0 and 1 of each output (``are_flags``),
    the positions are counted instead of the samples. ``expects_signs`` tells whether labels of -1 and 1, in place of 0
    and 1, give these samples an influence.
    """

    value: float
    samples: int
    batch_size: int
    others: tuple[float, ...]
    is_torch_loss: bool
    is_dense: bool = False
    are_flags: bool = False
    expects_signs: bool = False


@measurement
def ignored_target(output: Any, loss: Tensor, loss_call: LossCall) -> IgnoredTarget | None:
    """The value of the target whose samples have no gradient, and do not change the loss with other outputs."""
    if (dense_target := _get_dense_target(output, loss_call.targets)) is not None:
        return _find_ignored_class(output, loss, dense_target)
    if (flags := _get_flags(output, loss_call.targets)) is not None:
        return _find_ignored_flag(output, loss, flags, loss_call)
    target = _get_labels(loss_call.targets)
    outputs = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point()]
    if not outputs or any(not tensor.dim() or len(tensor) != len(target) for tensor in outputs):
        raise NotChecked("the output does not have one row per sample")
    gradients = [gradient for gradient in compute_output_gradients(loss, outputs) if gradient is not None]
    has_gradient = torch.stack([(g != 0).reshape(len(target), -1).any(1) for g in gradients]).any(0).to(target.device)
    values = torch.unique(target).tolist()
    for value in values:
        rows = target == value
        if int(rows.sum()) < _MIN_SAMPLES or bool(has_gradient[rows].any()):
            continue
        if float(has_gradient[~rows].float().mean()) < _MIN_LEARNED_SHARE:
            continue  # the loss selects samples, whatever their labels
        if not _changes_loss(loss_call, outputs, rows):
            module = getattr(loss_call.function, "__module__", "") or ""
            others = tuple(other for other in values if other != value)
            is_torch_loss = module.startswith("torch.")
            expects_signs = (value, others) == (0, (1,)) and _expects_signs(loss_call, outputs, rows)
            return IgnoredTarget(
                value, int(rows.sum()), len(target), others, is_torch_loss, expects_signs=expects_signs
            )
    return None


def _expects_signs(call: LossCall, outputs: list[Tensor], rows: Tensor) -> bool:
    """Return whether labels of -1 and 1 give the samples of label 0 an influence, and the loss stays a penalty.

    A likelihood without the term of the other label is negative if all labels are -1.
    """
    signs = 2 * call.targets[0] - 1
    others = [*_other_outputs([tensor.detach() for tensor in outputs], rows)]
    changed = [{id(old): new for old, new in zip(outputs, values, strict=True)} for values in others]
    try:
        signed, negative = call.with_target(signs), call.with_target(torch.full_like(signs, -1))
        return all(negative(values) >= 0 for values in changed) and any(
            signed(values) != signed() for values in changed
        )
    except Exception:  # a loss that takes class indices
        return False


def _get_dense_target(output: Any, targets: tuple[Any, ...]) -> Tensor | None:
    """Return a target with a class at each position of the samples; None for any other."""
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or target.dim() < 2 or not target.numel():
        return None
    return target if len(get_extra_axes(output, target)) == 1 else None


def _find_ignored_class(output: Tensor, loss: Tensor, target: Tensor) -> IgnoredTarget | None:
    """Return the class without a gradient at any position, if it leaves a single class to learn.

    Where several classes remain, the ignored one may stand for padding or for positions without a label.
    """
    values = torch.unique(target[target >= 0]).tolist()
    (gradient,) = compute_output_gradients(loss, [output])
    if len(values) != 2 or gradient is None:
        return None
    has_gradient = (gradient != 0).any(get_extra_axes(output, target)[0]).to(target.device)
    for value, other in (values, values[::-1]):
        rows = target == value
        if not bool(has_gradient[rows].any()) and bool(has_gradient[target == other].all()):
            return IgnoredTarget(value, int(rows.sum()), target.numel(), (other,), False, is_dense=True)
    return None


def _get_flags(output: Any, targets: tuple[Any, ...]) -> Tensor | None:
    """Return a target with a flag of 0 or 1 for each output, unless the outputs of a sample are shares of a whole."""
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.shape != target.shape:
        return None
    are_flags = target.dim() == 2 and bool(((target == 0) | (target == 1)).all())
    return target if are_flags and not _are_shares(output.detach()) else None


def _are_shares(output: Tensor) -> bool:
    """Check whether the outputs of each sample, or their exponentials, add up to one."""
    return any(bool((values.sum(1) - 1).abs().max() < _SHARE_TOLERANCE) for values in (output, output.exp()))


def _find_ignored_flag(output: Tensor, loss: Tensor, target: Tensor, call: LossCall) -> IgnoredTarget | None:
    """Return the flag without a gradient at any output, if the other one has a gradient at all."""
    (gradient,) = compute_output_gradients(loss, [output])
    if gradient is None:
        return None
    has_gradient = (gradient != 0).to(target.device)
    for value in (0.0, 1.0):
        ignored = target == value
        if int(ignored.sum()) < _MIN_SAMPLES or bool(has_gradient[ignored].any()) or not bool(has_gradient.any()):
            continue
        if bool(has_gradient[~ignored].all()) and not _changes_loss(call, [output], ignored):
            return IgnoredTarget(value, int(ignored.sum()), target.numel(), (1 - value,), False, are_flags=True)
    return None


@dataclass(frozen=True)
class IgnoredColumns:
    """Columns of the output without a gradient in any of ``rows`` samples, though the target has columns for them."""

    columns: tuple[int, ...]
    count: int
    rows: int


@measurement
def ignored_columns(first_pass: ForwardPass, output: Any, loss: Tensor) -> IgnoredColumns | None:
    """Columns of the output that have targets of their own and no gradient."""
    scores, target = _get_matrices(first_pass, output)
    if target.shape != scores.shape:
        raise NotChecked("the columns of the output have no targets of their own")
    return _find_ignored(scores, loss, _varies(target))


@measurement
def ignored_heads(first_pass: ForwardPass, output: Any, loss: Tensor, loss_call: LossCall) -> IgnoredColumns | None:
    """Columns of the output without a gradient, if the loss also ignores a column of the target."""
    scores, _ = _get_matrices(first_pass, output)
    return _find_ignored(scores, loss) if _ignores_target_column(loss_call) else None


@measurement
def detached_columns(
    output: Any,
    loss_call: LossCall,
    ignored_columns: IgnoredColumns | NotChecked | None,
    ignored_heads: IgnoredColumns | NotChecked | None,
) -> IgnoredColumns | None:
    """Those columns without a gradient from whose values the loss is computed: small changes of them change it."""
    scores = score_tensor(output)
    columns = next((item for item in (ignored_columns, ignored_heads) if isinstance(item, IgnoredColumns)), None)
    if columns is None or not isinstance(scores, Tensor):
        return None
    detached = tuple(column for column in columns.columns if _reads_column(loss_call, scores, column))
    return replace(columns, columns=detached) if detached else None


def _reads_column(call: LossCall, scores: Tensor, column: int) -> bool:
    """Return whether each of a few small changes of a column changes the loss."""
    generator, rows = torch.Generator().manual_seed(0), min(len(scores), _MAX_CHANGED_ROWS)
    deviation = scores.detach()[:, column].std()
    try:
        expected = call()
        for _ in range(_MIN_TRIALS):
            values = scores.detach().clone()
            values[:rows, column] += _SMALL_CHANGE * deviation * torch.randn(rows, generator=generator).to(values)
            if call({id(scores): values}) == expected:
                return False
    except Exception:  # the loss rejects these values
        return False
    return True


def _get_matrices(first_pass: ForwardPass, output: Any) -> tuple[Tensor, Tensor]:
    """Return the output and the target, if both have several columns."""
    scores, target = score_tensor(output), first_pass.batch.target
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor) or scores.dim() != 2 or target.dim() != 2:
        raise NotChecked("needs an output and a target of two axes")
    if len(target) != len(scores) or len(scores) < _MIN_ROWS or not 1 < target.shape[1] <= _MAX_COLUMNS:
        raise NotChecked(f"needs {_MIN_ROWS} samples and several columns of targets")
    return scores, target


def _find_ignored(scores: Tensor, loss: Tensor, is_judged: Tensor | bool = True) -> IgnoredColumns | None:
    (gradient,) = compute_output_gradients(loss, [scores])
    if gradient is None:
        return None
    columns = tuple(((gradient == 0).all(0).cpu() & is_judged).nonzero().flatten().tolist())
    return IgnoredColumns(columns, scores.shape[1], len(scores)) if 0 < len(columns) < scores.shape[1] else None


def _varies(target: Tensor) -> Tensor:
    """Return which columns of a target are finite and not constant."""
    values = target.detach().cpu().double()
    return values.isfinite().all(0) & (values != values[:1]).any(0)


def _ignores_target_column(call: LossCall) -> bool:
    """Return whether the loss stays the same with the values of a column exchanged among the samples."""
    target = call.targets[0] if len(call.targets) == 1 else None
    if not isinstance(target, Tensor) or target.dim() != 2:
        return False
    expected, varies = call(), _varies(target)
    for column in varies.nonzero().flatten().tolist():
        changed = target.clone()
        changed[:, column] = changed[:, column].sort().values.flip(0)
        other = changed.clone()
        other[:, column] = changed[:, column].flip(0)
        if call.with_target(changed)() == expected == call.with_target(other)():
            return True
    return False


def _get_labels(targets: tuple[Any, ...]) -> Tensor:
    """Return the labels of the samples; raise NotChecked if there may be a mask, or an index that is ignored."""
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(target, Tensor) or not target.dim() or target.numel() != len(target):
        raise NotChecked("needs one target with one value for each sample")
    labels = target.detach().flatten()
    distinct = len(torch.unique(labels))
    if not 1 < distinct <= _MAX_DISTINCT or not bool(labels.isfinite().all()):
        raise NotChecked("the target does not have a few distinct values")
    if not labels.is_floating_point() and bool((labels < 0).any()) and distinct > 2:
        raise NotChecked("negative labels may stand for samples without a label")
    return labels


def _changes_loss(call: LossCall, outputs: list[Tensor], rows: Tensor) -> bool:
    """Return whether other outputs for some samples, or at some positions, change the loss.

    True also if too few of them could be tried.
    """
    expected, trials = call(), 0
    for values in _other_outputs([tensor.detach() for tensor in outputs], rows):
        try:
            if call({id(old): new for old, new in zip(outputs, values, strict=True)}) != expected:
                return True
            trials += 1
        except Exception:  # the loss rejects these values
            continue
    return trials < _MIN_TRIALS


def _other_outputs(outputs: list[Tensor], rows: Tensor) -> Iterator[list[Tensor]]:
    """Yield outputs in which some rows have other values: small, large, opposite, random and equal ones."""
    generator = torch.Generator().manual_seed(0)
    noise = [torch.randn(tensor.shape, generator=generator).to(tensor) for tensor in outputs]
    if all(bool(((tensor >= 0) & (tensor <= 1)).all()) for tensor in outputs):  # probabilities
        changes = [[1 - t for t in outputs], [0.98 * n.sigmoid() for n in noise], [0 * t + 0.5 for t in outputs]]
    else:
        scales = [max(float(tensor.std()), 1e-3) if tensor.numel() > 1 else 1.0 for tensor in outputs]
        changes = [[-t for t in outputs], [10 * t for t in outputs], [1e-3 * n for n in noise]]
        changes += [[factor * s * n for s, n in zip(scales, noise, strict=True)] for factor in (1, 10, 100)]
        if len({tensor.shape for tensor in outputs}) == 1:
            changes.append([outputs[0] for _ in outputs])
    where = [
        rows.to(t.device) if rows.dim() > 1 else rows.to(t.device).reshape(-1, *[1] * (t.dim() - 1)) for t in outputs
    ]
    for changed in changes:
        yield [torch.where(w, new, old) for w, new, old in zip(where, changed, outputs, strict=True)]
