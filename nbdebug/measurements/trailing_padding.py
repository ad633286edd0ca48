"""What the amount of padding changes: outputs for rows with a part of their padding removed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.padding import RECURRENT_CALLS, find_trailing_frames, find_trailing_padding, position_axis
from nbdebug.measurements.padding_calls import find_losing_call, find_width_call, record_pass
from nbdebug.measurements.padding_masks import masks_padding
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MIN_RELATIVE_CHANGE = 1e-3
_MIN_CHANGED_SHARE, _MIN_ROW_CHANGE = 0.9, 5e-3  # of the real positions of a row, and its mean change in deviations
_MIN_END_CHANGE = 0.1  # of a real position, in standard deviations of the outputs of its row
_MAX_ALONE = 8  # rows that are compared with themselves alone
_MAX_SPREAD = 0.5  # of the outputs of rows that their padding makes forget, relative to that of the rows alone


@dataclass(frozen=True)
class TrailingPadding:
    """Effect on the outputs of trimming ``trimmed_columns`` of the padding from ``rows``.

    If ``is_whole``, all the padding of each row was trimmed, at most these columns, since less changes little: the last
    state of a recurrent layer has forgotten the row after some steps of padding, and no longer changes with more.
    ``token`` pads the rows; it is None if a vector or a number does, as in series. ``changed_rows`` is the number of
    rows whose output changes; ``widths`` are the widths of the first batches. ``call`` is the one where the padding
    first changes other values, or the last mask applied before it. ``is_masked`` tells whether the model marks these
    positions in any of its calls. If ``is_padded_inside``, the model itself pads the rows to the longest one of their
    batch, which trimming cannot undo: they were compared with themselves alone, and ``call`` loses their content.
    If ``is_at_ends``, the output has a value for each position, of which those near the ends of the rows change: a
    recurrent layer that runs backward reads the padding first, although labels, a mask or lengths mark it.
    """

    token: int | None
    rows: int
    changed_rows: int
    trimmed_columns: int
    widths: tuple[int, ...]
    call: TorchCall | None = None
    is_masked: bool = False
    is_whole: bool = False
    is_padded_inside: bool = False
    is_at_ends: bool = False


@dataclass(frozen=True)
class _PaddedInput:
    """An input, its padded positions (rows × steps), the axis of its steps, and the token that pads it, if any."""

    values: Tensor
    padded: Tensor
    axis: int
    token: int | None = None


@measurement
def trailing_padding(
    eval_outputs: EvalOutputs, batches: list[Batch], val_batches: list[Batch] | NotChecked
) -> TrailingPadding:
    """Outputs in eval mode of the rows with the most padding: in their batch, and with half of the padding trimmed.

    If this changes little, some rows are compared with themselves alone and without any padding. Where training rows
    have none, as in batches of rows of one length, it is that of a validation batch.
    """
    if (result := _measure_trimming(eval_outputs, batches)) is not None:
        return result
    if not isinstance(val_batches, NotChecked) and val_batches:
        val_answers = replace(eval_outputs, batch=val_batches[0])
        val_answers = replace(val_answers, outputs=val_answers.predict(val_batches[0]))
        if (result := _measure_trimming(val_answers, [*batches, *val_batches])) is not None:
            return result
    raise NotChecked("nothing fills the ends of the rows, or the model has further inputs with several axes")


def _measure_trimming(answers: EvalOutputs, batches: list[Batch]) -> TrailingPadding | None:
    """Return the effect of trimming the padding of the first input that has any; None if none has."""
    for name, values in answers.inputs.items():
        padding = _find_padding(values, answers.batch.size)
        if padding is None or any(t.dim() > 1 and t is not values for t in answers.inputs.values()):
            continue
        same_inputs = [
            tensor for batch in batches if (tensor := replace(answers, batch=batch).inputs.get(name)) is not None
        ]
        if padding.token is not None and any(_precedes_others(padding.token, tokens) for tokens in same_inputs):
            continue  # a token that ends the few rows of a batch by chance
        padded_lengths = padding.padded.sum(1)
        columns = max(int(padded_lengths.max()) // 2, 1)
        rows = (padded_lengths >= columns).nonzero().flatten().tolist()
        padded_outputs = replace(answers, batch=answers.batch.take_samples(rows))
        # In its whole batch, a row may be padded again to the longest one inside the model.
        is_batch_first = len(answers.outputs[0]) == len(padding.padded)
        before = answers.outputs[0][rows] if is_batch_first else answers.predict(padded_outputs.batch)[0]
        trimmed = _trim_columns(padded_outputs.batch, padded_outputs.inputs[name], padding.axis, columns)
        after = answers.predict(trimmed)[0]
        widths = tuple(tensor.shape[padding.axis] for tensor in same_inputs if tensor.dim() > padding.axis)
        padded = padding.padded[rows]
        changed_rows = _count_changed_rows(before, after, padded, columns)
        result = TrailingPadding(padding.token, len(rows), changed_rows, columns, widths)
        in_batch = before if is_batch_first else None
        if 2 * changed_rows <= len(rows) and (
            alone := _compare_alone(padded_outputs, name, padding.axis, padded, in_batch)
        ):
            return replace(alone, token=padding.token, widths=widths)
        if 2 * changed_rows <= len(rows) and (ends := _compare_ends(padded_outputs, name, padding.axis, padded)):
            return replace(ends, token=padding.token, widths=widths)
        return _with_call(result, padded_outputs, trimmed, padded) if changed_rows else result
    return None


def _precedes_others(token: int, tokens: Tensor) -> bool:
    """Return whether a token stands before another one in any row."""
    is_token = tokens == token
    return tokens.dim() == 2 and bool((is_token[:, :-1] & ~is_token[:, 1:]).any())


def _with_call(result: TrailingPadding, wide: EvalOutputs, narrow: Batch, padded: Tensor) -> TrailingPadding:
    call = find_width_call(wide, wide.batch, narrow, padded)
    return replace(result, call=call, is_masked=masks_padding(record_pass(wide, wide.batch), padded))


def _compare_alone(
    answers: EvalOutputs, name: str, axis: int, padded: Tensor, in_batch: Tensor | None
) -> TrailingPadding | None:
    """Return the effect of all the padding of some rows; None if they differ with it about as much as alone.

    So a convolution may read a few columns of padding at the ends of rows. ``in_batch`` are the outputs of the rows in
    their batch, to whose longest row the model may pad them.
    """
    columns = padded.sum(1)
    candidates = (~padded).sum(1).gt(1).nonzero().flatten()
    rows = candidates[columns[candidates].argsort(descending=True, stable=True)][:_MAX_ALONE].tolist()
    pairs = []
    for row in rows:
        single = replace(answers, batch=answers.batch.take_samples([row]))
        trimmed = _trim_columns(single.batch, single.inputs[name], axis, int(columns[row]))
        pairs.append((single.predict(single.batch)[0], single.predict(trimmed)[0]))
    if len(pairs) < 2 or len({output.shape for outputs in pairs for output in outputs}) > 1:
        return None  # the output has a value for each step, of which those of real steps were compared
    with_padding, alone = (torch.cat(outputs).reshape(len(rows), -1) for outputs in zip(*pairs, strict=True))
    result = TrailingPadding(None, len(rows), 0, int(columns[rows[0]]), (), is_whole=True)
    if _spread(with_padding) <= _MAX_SPREAD * _spread(alone):
        pair = replace(answers, batch=answers.batch.take_samples([rows[0]] * 2))
        narrow = _trim_columns(pair.batch, pair.inputs[name], axis, result.trimmed_columns)
        result = replace(result, changed_rows=_count_different(with_padding, alone))
        return _with_call(result, pair, narrow, padded[[rows[0]] * 2])
    if in_batch is None or _spread(in_batch[rows]) > _MAX_SPREAD * _spread(alone):
        return None
    changed_rows = _count_different(in_batch[rows].reshape(len(rows), -1), alone)
    call = _find_losing_call(answers, name, axis, rows[0], padded)
    return replace(result, changed_rows=changed_rows, call=call, is_padded_inside=True)


def _compare_ends(answers: EvalOutputs, name: str, axis: int, padded: Tensor) -> TrailingPadding | None:
    """Return the effect of all the padding on the real positions of some rows, read backward by a recurrent layer.

    A convolution reads as much of a border of zeros, and its few positions do not depend on the amount of padding.
    """
    columns = padded.sum(1)
    rows = columns.argsort(descending=True, stable=True)[:_MAX_ALONE].tolist()
    if not _marks_padding(answers.batch, padded) or not bool((~padded).any(1).all()):
        return None
    changes = []
    for row in rows:
        single = replace(answers, batch=answers.batch.take_samples([row]))
        trimmed = _trim_columns(single.batch, single.inputs[name], axis, int(columns[row]))
        before, after = single.predict(single.batch)[0], single.predict(trimmed)[0]
        place = position_axis(before, padded[[row]])
        if before.dim() < 2 or before.shape[place] != padded.shape[1] or len(after) != len(before):
            return None
        before = before.narrow(place, 0, after.shape[place])
        changes.append(float((before - after).abs().max()) > _MIN_END_CHANGE * float(after.std().clamp_min(1e-6)))
    if 2 * sum(changes) <= len(rows):
        return None
    pair = replace(answers, batch=answers.batch.take_samples([rows[0]] * 2))
    narrow = _trim_columns(pair.batch, pair.inputs[name], axis, int(columns[rows[0]]))
    result = TrailingPadding(None, len(rows), sum(changes), int(columns[rows[0]]), (), is_whole=True, is_at_ends=True)
    result = _with_call(result, pair, narrow, padded[[rows[0]] * 2])
    return result if result.call is not None and result.call.name in RECURRENT_CALLS else None


def _marks_padding(batch: Batch, padded: Tensor) -> bool:
    """Return whether a tensor of a batch has a value of its own at padded positions, or their number."""
    return any(_has_own_value(t, padded) or _are_lengths(t, padded) for t in tree_tensors((batch.raw, batch.targets)))


def _has_own_value(labels: Tensor, padded: Tensor) -> bool:
    if labels.shape != padded.shape or labels.is_floating_point() or not bool(padded.any()):
        return False
    value = labels[padded][0]
    return torch.equal(labels == value, padded.to(labels.device))


def _are_lengths(lengths: Tensor, padded: Tensor) -> bool:
    return lengths.shape == padded.shape[:1] and bool((lengths == (~padded).sum(1).to(lengths.device)).all())


def _find_losing_call(answers: EvalOutputs, name: str, axis: int, row: int, padded: Tensor) -> TorchCall | None:
    """Return the call whose result for a row no longer depends on its content, beside the row with least padding."""
    longest, length = int(padded.sum(1).argmin()), int((~padded[row]).sum())
    pair = replace(answers, batch=answers.batch.take_samples([row, longest]))
    values = pair.inputs[name].movedim(axis, 1)
    reversed_row = torch.cat([values[:1, :length].flip(1), values[:1, length:]], 1)
    changed = torch.cat([reversed_row, values[1:]]).movedim(1, axis)
    return find_losing_call(pair, pair.batch, _with_input(pair.batch, pair.inputs[name], changed))


def _spread(outputs: Tensor) -> float:
    """Return the standard deviation over the rows."""
    return float(outputs.std(0).square().mean().sqrt())


def _find_padding(values: Tensor, size: int) -> _PaddedInput | None:
    """Return the padding of tokens, or of series of numbers or vectors; None if nothing fills the ends of rows.

    Steps come after the samples, after the features, or first.
    """
    tokens = find_trailing_padding(values)
    if tokens is not None:
        return _PaddedInput(values, tokens[1], 1, tokens[0])
    if values.dim() == 2:
        frames = {1: values.unsqueeze(2)}
    elif values.dim() == 3:
        frames = {1: values, 2: values.transpose(1, 2), 0: values.transpose(0, 1)}
    else:
        return None
    candidates = ((axis, find_trailing_frames(t)) for axis, t in frames.items() if len(t) == size)
    return next((_PaddedInput(values, padded, axis) for axis, padded in candidates if padded is not None), None)


def _trim_columns(batch: Batch, values: Tensor, axis: int, columns: int) -> Batch:
    return _with_input(batch, values, values.narrow(axis, 0, values.shape[axis] - columns))


def _with_input(batch: Batch, values: Tensor, changed: Tensor) -> Batch:
    """Return the batch with another tensor in the place of an input."""
    args, kwargs = tree_map((batch.args, batch.kwargs), lambda leaf: changed if leaf is values else leaf)
    return replace(batch, args=args, kwargs=kwargs)


def _count_changed_rows(before: Tensor, after: Tensor, padded: Tensor, columns: int) -> int:
    """Count the rows of the output that differ clearly; padded positions of per-token outputs are excluded.

    An output for each position counts if nearly all of its real positions differ: a convolution and a recurrent layer
    that runs backward read the padding only near the end of a row, as they read its border without padding.
    """
    axis = position_axis(before, padded)
    if before.dim() > 1 and len(before) == len(padded) and before.shape[axis] == padded.shape[1]:
        before, after = before.movedim(axis, 1), after.movedim(axis, 1)
        width = padded.shape[1] - columns
        return _count_different_positions(before[:, :width], after[:, :width], ~padded[:, :width])
    if before.shape != after.shape:
        raise NotChecked("the shape of the output depends on the width of the input")
    return _count_different(after, before)


def _count_different_positions(before: Tensor, after: Tensor, is_real: Tensor) -> int:
    """Count the rows with a clear difference at nearly all real positions, and on average."""
    difference = (after - before).abs().flatten(2).amax(2) if before.dim() > 2 else (after - before).abs()
    is_real, spread = is_real.to(difference.device), float(before.std().clamp_min(1e-6))
    real_positions = is_real.sum(1).clamp_min(1)
    share = ((difference > _MIN_RELATIVE_CHANGE * spread) & is_real).sum(1) / real_positions
    mean_change = ((difference * is_real).square().sum(1) / real_positions).sqrt()
    return int(((share >= _MIN_CHANGED_SHARE) & (mean_change > _MIN_ROW_CHANGE * spread)).sum())


def _count_different(outputs: Tensor, reference: Tensor) -> int:
    row_difference = (outputs - reference).abs().reshape(len(outputs), -1).amax(1)
    return int((row_difference > _MIN_RELATIVE_CHANGE * float(reference.std().clamp_min(1e-6))).sum())
