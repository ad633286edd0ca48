"""Order of the rows of an output: whether they come back in the order of the samples that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.batch_independence import has_batch_axis, is_batch_first_throughout
from nbdebug.measurements.input_usage import find_module_call_line
from nbdebug.measurements.perturbation import EvalOutputs, compute_loss_value
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch
from nbdebug.setup.losses import get_loss_kind
from nbdebug.source.location import SourceLine, get_location
from nbdebug.tensors.pytree import tree_tensors

_MAX_CHECKED, _SUMS = 8, 4  # samples whose row is looked up; random sums by which rows are compared
_RELATIVE_TOLERANCE = 1e-4  # of the largest output, or of a loss: sums in another order are rounded differently
_MAX_SAMPLE_AXES = 2  # samples are along the first axis, or along the second one behind the steps


@dataclass(frozen=True)
class ReorderedRows:
    """Rows of an output that belong to other samples than the inputs in the same places.

    ``displaced`` of ``checked`` samples have their output in another row, the first of them ``sample`` in ``row``.
    ``is_loss_changed`` tells whether the loss of the batch changes if its samples and their targets are permuted
    together; None if no loss can be computed. ``is_order_returned`` is True if the model returns a permutation too,
    and the loss gets the rows alone: what follows the model may put them back before the loss. ``where`` is the last
    line that makes rows in the other order, ``reordering_line`` the one that changes the order. The index of this line
    restores the order itself, or ``restored_by`` its argsort(); "" if it does neither for each checked sample.
    """

    sample: int
    row: int
    displaced: int
    checked: int
    is_loss_changed: bool | None
    is_order_returned: bool
    where: Location
    reordering_line: SourceLine | None
    restored_by: Literal["argsort", "index", ""]

    @property
    def is_undone(self) -> bool:
        """Whether what comes after the model may put the rows back, or does not need them in order."""
        return self.is_order_returned or self.is_loss_changed is False


@measurement
def reordered_rows(eval_outputs: EvalOutputs) -> ReorderedRows | None:
    """Output rows that do not follow a permutation of the samples, although they are the same rows.

    Such a row belongs to a sample that is elsewhere in the batch: it is missing once another sample replaces that one.
    """
    size = eval_outputs.batch.size
    if not is_batch_first_throughout(eval_outputs) or not has_batch_axis(eval_outputs.outputs[0], size):
        raise NotChecked("the batch axis of the output is unknown")
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    permuted = _take(eval_outputs, order)
    before, after = eval_outputs.outputs[0], eval_outputs.predict(permuted)[0]
    if before.shape != after.shape or not _are_same_rows(eval_outputs, before, after, order):
        return None
    rows = _rows_of_samples(eval_outputs)
    displaced = [(sample, row) for sample, row in rows.items() if sample != row]
    if not displaced:
        return None
    place, reordering = _reordering_calls(eval_outputs, permuted, order)
    return ReorderedRows(
        *displaced[0],
        displaced=len(displaced),
        checked=len(rows),
        is_loss_changed=_is_loss_changed(eval_outputs, order),
        is_order_returned=_is_order_returned(eval_outputs, permuted),
        where=_location_in_same_function(eval_outputs, place, reordering) if place else Location(),
        reordering_line=reordering.line if reordering else None,
        restored_by=_restoring_index(reordering, rows, size) if reordering else "",
    )


def _take(answers: EvalOutputs, samples: Tensor) -> Batch:
    """Return the batch with other samples of it in its places."""
    size = answers.batch.size
    return answers.transform_inputs(lambda t: t[samples.to(t.device)] if has_batch_axis(t, size) else t)


def _are_same_rows(answers: EvalOutputs, before: Tensor, after: Tensor, order: Tensor) -> bool:
    """Return whether rows do not follow the permutation, but are all among the rows of the first pass."""
    tolerance = _tolerance(answers)
    if float((after - before[order.to(before.device)]).abs().max()) <= tolerance:
        return False  # as for most models, whose outputs may have too many values for quick sums
    rows, other_rows = _fingerprints(before), _fingerprints(after)
    has_moved = (other_rows - rows[order.to(rows.device)]).abs().amax(1) > tolerance
    return bool(has_moved.any()) and bool(_are_among(other_rows, rows, tolerance).all())


def _tolerance(answers: EvalOutputs) -> float:
    return max(answers.noise, _RELATIVE_TOLERANCE * float(answers.outputs[0].abs().max()))


def _fingerprints(rows: Tensor) -> Tensor:
    """Return a few random sums of the values of each row: sums of rows that differ differ as much as a value does."""
    values = rows.reshape(len(rows), -1).double()
    generator = torch.Generator().manual_seed(0)
    return values @ torch.randn(values.shape[1], _SUMS, generator=generator, dtype=torch.float64).to(values.device)


def _are_among(rows: Tensor, others: Tensor, tolerance: float) -> Tensor:
    """Return for each row whether it is among other rows."""
    return torch.cdist(rows, others, p=float("inf")).amin(1) <= tolerance


def _rows_of_samples(answers: EvalOutputs) -> dict[int, int]:
    """Return the row of the output that belongs to each of the first samples, by the sample.

    It is the only one that is missing if a copy of the next sample takes the place of the sample. Samples whose absence
    changes other rows too, as that of the longest text, or with the output of another sample, are left out.
    """
    before, size = _fingerprints(answers.outputs[0]), answers.batch.size
    rows: dict[int, int] = {}
    for sample in range(min(_MAX_CHECKED, size)):
        samples = torch.arange(size)
        samples[sample] = (sample + 1) % size
        after = answers.predict(_take(answers, samples))[0]
        if after.shape == answers.outputs[0].shape:
            is_missing = ~_are_among(before, _fingerprints(after), _tolerance(answers))
            rows.update({sample: int(is_missing.nonzero())} if int(is_missing.sum()) == 1 else {})
    return rows


def _is_loss_changed(answers: EvalOutputs, order: Tensor) -> bool | None:
    """Return whether the loss of the batch changes with the order of its samples; None if it cannot be computed."""
    try:
        losses = [
            compute_loss_value(answers.setup, answers.predict_whole(batch), batch)
            for batch in (answers.batch, answers.batch.take_samples(order.tolist()))
        ]
    except NotChecked:
        return None
    return abs(losses[1] - losses[0]) > _RELATIVE_TOLERANCE * max(map(abs, losses))


def _is_order_returned(answers: EvalOutputs, permuted: Batch) -> bool:
    """Return whether the model returns a permutation that a loss of the output alone does not get."""
    takes_all = answers.setup.loss_fn is not None and get_loss_kind(answers.setup.loss_fn) == "other"
    returned = () if takes_all else tree_tensors(answers.predict_whole(permuted))
    return any(_is_permutation(t, permuted.size) for t in returned)


def _is_permutation(values: Tensor, size: int) -> bool:
    """Return whether a tensor has each place of a batch once, and not in order."""
    if values.shape != (size,) or values.is_floating_point() or values.is_complex() or values.dtype is torch.bool:
        return False
    places = torch.arange(size, device=values.device)
    return torch.equal(values.sort().values, places) and not torch.equal(values, places)


def _reordering_calls(
    answers: EvalOutputs, permuted: Batch, order: Tensor
) -> tuple[TorchCall | None, TorchCall | None]:
    """Return the last call whose rows are in another order, and the last one that returns its input in another order.

    Calls on several values for each sample come before those on a number for each, such as their lengths. If no call
    changes the order of its input, as where parts of the batch are joined, the first call counts whose rows do not
    follow the samples.
    """
    size, calls = answers.batch.size, _recorded_pairs(answers, permuted)
    candidates = [first for first, second in calls if _has_strayed(first.outputs[0], second.outputs[0], order)]
    reordering = [call for call in candidates if any(_moves_rows(t, call.outputs[0], size) for t in call.inputs)]
    reordering_call = next(iter([*reversed(_wide(reordering)), *reversed(reordering), *candidates]), None)
    located = [call for call in candidates if call.line is not None]
    return next(iter([*reversed(_wide(located)), *reversed(located)]), None), reordering_call


def _wide(calls: list[TorchCall]) -> list[TorchCall]:
    """Return the calls whose result has several values for each sample."""
    return [call for call in calls if call.outputs[0].dim() > 1]


def _location_in_same_function(answers: EvalOutputs, call: TorchCall, reordering: TorchCall | None) -> Location:
    """Return the location of a call; if a part of the module that changes the order makes it, where that is called."""
    if reordering is None:
        return call.where
    owner = reordering.module or ""
    inner = (call.module or "").removeprefix(f"{owner}." if owner else "")
    line = call.line
    if call.module != reordering.module and inner and (not owner or inner != call.module):
        child = ".".join(filter(None, [owner, inner.partition(".")[0]]))
        line = find_module_call_line(answers.setup, answers.batch, child) or line
    return get_location(line, reordering.module)


def _restoring_index(call: TorchCall, rows: dict[int, int], size: int) -> Literal["argsort", "index", ""]:
    """Return how the permutation that a call selects rows by puts those of the checked samples back."""
    for index in (t for t in call.inputs if _is_permutation(t, size)):
        places = index.tolist()
        if all(places[row] == sample for sample, row in rows.items()):
            return "argsort"
        if all(places[sample] == row for sample, row in rows.items()):
            return "index"
    return ""


def _recorded_pairs(answers: EvalOutputs, permuted: Batch) -> list[tuple[TorchCall, TorchCall]]:
    """Return the calls of a pass, each with the same call of the pass over the permuted samples."""
    passes = map(answers.recorded_calls, (answers.batch, permuted))
    return [pair for pair in zip(*passes, strict=False) if pair[0].name == pair[1].name]


def _has_strayed(first: Tensor, second: Tensor, order: Tensor) -> bool:
    """Return whether two tensors have the same rows of samples, but not in the order of the samples."""
    size = len(order)
    for axis in _sample_axes(first, size) if first.shape == second.shape else ():
        rows, other_rows = first.movedim(axis, 0), second.movedim(axis, 0)
        follows = torch.allclose(other_rows, rows[order.to(rows.device)], rtol=1e-4, atol=1e-6)
        if not follows and _have_equal_rows(rows, other_rows):
            return True
    return False


def _moves_rows(source: Tensor, result: Tensor, size: int) -> bool:
    """Return whether a result has the rows of a tensor in another order."""
    if source.layout is not torch.strided or result.layout is not torch.strided:
        return False
    if source.shape != result.shape or source.dtype != result.dtype or torch.equal(source, result):
        return False
    return any(
        _have_equal_rows(source.movedim(axis, 0), result.movedim(axis, 0)) for axis in _sample_axes(source, size)
    )


def _sample_axes(tensor: Tensor, size: int) -> Iterator[int]:
    axes = range(min(tensor.dim(), _MAX_SAMPLE_AXES)) if tensor.layout is torch.strided else ()
    yield from (axis for axis in axes if tensor.shape[axis] == size)


def _have_equal_rows(rows: Tensor, other_rows: Tensor) -> bool:
    """Return whether two tensors have the same rows, in any order, by random sums of their values."""
    values = [each.reshape(len(each), -1).double() for each in (rows, other_rows)]
    weights = torch.randn(values[0].shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first, second = ((each * weights.to(each.device)).sum(1).sort().values for each in values)
    return torch.allclose(first, second, rtol=1e-4, atol=1e-5)
