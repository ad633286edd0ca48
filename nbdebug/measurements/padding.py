"""Padded positions and their influence on the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.autograd.replaced_calls import Replacements
from nbdebug.exceptions import NotChecked
from nbdebug.hooks.module_hooks import hooked
from nbdebug.measurements.input_usage import display_names
from nbdebug.measurements.padding_calls import PaddingPass, find_content_call, record_pass, run_pass
from nbdebug.measurements.padding_masks import masks_padding
from nbdebug.measurements.perturbation import EvalOutputs, zeros_filled
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.sequence_order import replace_values
from nbdebug.tensors.pytree import tree_tensors

_MIN_PADDED_SHARE, _MIN_DISTINCT_LENGTHS, _MIN_RELATIVE_CHANGE = 0.2, 3, 1e-3
_MAX_NEUTRAL_ROWS, _MIN_HELD_ENDS = 4, 2
RECURRENT_CALLS = {"gru", "lstm", "rnn_tanh", "rnn_relu"}
_MAX_PADDED_ENDS = 0.5  # share of the samples whose last real step has the value of padding


def _find_padding_mixing_call(
    answers: EvalOutputs, padded: Tensor, replace_values: Callable[[Tensor, Tensor], Tensor], mask: Tensor | None
) -> TorchCall | None:
    """Return the call where the padding of the most padded sample first changes real values, or the mask that feeds it.

    ``replace_values`` gives the padding other values; ``mask`` holds the mask or the lengths. None if the call cannot
    be found.
    """
    row = int(padded.sum(1).argmax())
    padded_pair = padded[[row, row]]
    try:
        pair = replace(answers, batch=answers.batch.take_samples([row, row]))
        changed = pair.transform_inputs(
            lambda leaf: leaf if _is_repeated_row(leaf, mask, row) else replace_values(leaf, padded_pair)
        )
        inputs = tree_tensors((pair.batch.args, pair.batch.kwargs))
        masks = [item for item in inputs if _is_repeated_row(item, mask, row)]
        return find_content_call(
            partial(run_pass, pair, pair.batch), partial(run_pass, pair, changed), padded_pair, masks
        )
    except (NotChecked, RuntimeError, ValueError, IndexError):
        return None


def _is_repeated_row(tensor: Tensor, mask: Tensor | None, row: int) -> bool:
    """Return whether a tensor contains one row of ``mask``, twice."""
    return mask is not None and tensor.shape[1:] == mask.shape[1:] and torch.equal(tensor, mask[[row, row]])


@dataclass(frozen=True)
class Padding:
    """Padded positions, how they were identified, and the output rows that depend on their content.

    ``has_mask_or_lengths`` is True if the model gets a mask or lengths. ``padded_positions`` is the number of padded
    positions; ``affected`` of ``real`` output rows or positions changed. ``mixing_call`` is the call that mixes padded
    positions with real ones. ``relative_effect`` is the change of the outputs by the padding of a row over that by its
    content, the median of the rows; None if it was not measured. ``reading_call`` is the first call whose values at
    real positions depend on padding, also in a model that masks none. ``positions`` (rows × steps) marks the padding.
    """

    has_mask_or_lengths: bool
    source: str
    padded_positions: int
    affected: int
    real: int
    mixing_call: TorchCall | None = None
    relative_effect: float | None = None
    reading_call: TorchCall | None = None
    positions: Tensor | None = field(default=None, compare=False, repr=False)


@measurement
def padding(eval_outputs: EvalOutputs) -> Padding:
    """Number of real outputs that change if only the content of padded positions changes.

    If none does, trained parameters of zeros get small random numbers: they hide the layers before them at the start.
    """
    result = _measure_padding(eval_outputs)
    if result.affected:
        return result
    with zeros_filled(eval_outputs) as filled:
        return result if filled is eval_outputs else _measure_padding(filled)


def _measure_padding(eval_outputs: EvalOutputs) -> Padding:
    for name, tensor in eval_outputs.inputs.items():
        for declared in get_declared_padding(tensor, list(eval_outputs.inputs.values())):
            result = _measure_effect(
                eval_outputs,
                _predict_with_other_padding(eval_outputs, declared, tensor),
                declared,
                True,
                f"input {display_names([name], eval_outputs)[0]!r}",
            )
            if result.affected and _is_neutral(eval_outputs, declared):
                return replace(result, affected=0)
            return (
                replace(result, mixing_call=_find_padding_mixing_call(eval_outputs, declared, _replace_padding, tensor))
                if result.affected
                else result
            )
    for path, module in eval_outputs.setup.eager_model.named_modules():
        padded = _get_padding_from_index(module, eval_outputs)
        if padded is not None:
            with change_embedded(module, padded):
                after = eval_outputs.predict(eval_outputs.batch)[0]
            result = _measure_effect(eval_outputs, after, padded, False, f"padding_idx={module.padding_idx} of {path}")
            if result.affected and _is_neutral(eval_outputs, padded):
                return replace(result, affected=0)
            if not result.affected:
                return result
            call = _find_packing_call(eval_outputs) or _find_unmasked_call(eval_outputs, module, padded)
            effect = _compare_with_content(eval_outputs, after, module, padded)
            reading_call = call or _find_reading_call(eval_outputs, module, padded)
            return replace(result, mixing_call=call, relative_effect=effect, reading_call=reading_call)
    raise NotChecked("no mask, no lengths and no padding_idx identify padded positions")


def _compare_with_content(answers: EvalOutputs, after: Tensor, embedding: nn.Module, padded: Tensor) -> float | None:
    """Return the effect of other padding over that of other content, the median of the padded rows."""
    before = answers.outputs[0]
    if len(before) != len(padded) or before.shape[position_axis(before, padded)] == padded.shape[1]:
        return None
    with change_embedded(embedding, ~padded):
        with_other_content = answers.predict(answers.batch)[0]
    rows = padded.any(1) & ~padded.all(1)
    changes = [(output - before).reshape(len(before), -1).norm(dim=1)[rows] for output in (after, with_other_content)]
    return float((changes[0] / changes[1].clamp_min(1e-12)).median())


def _is_neutral(answers: EvalOutputs, padded: Tensor) -> bool:
    """Return whether some samples have the same output alone and without their padding, such as a sum of zeros."""
    rows = (padded.any(1) & ~padded.all(1)).nonzero().flatten().tolist()[:_MAX_NEUTRAL_ROWS]
    try:
        return bool(rows) and all(_is_neutral_in_row(answers, padded, row) for row in rows)
    except (RuntimeError, ValueError, IndexError, TypeError):  # the model needs this width, or whole batches
        return False


def _is_neutral_in_row(answers: EvalOutputs, padded: Tensor, row: int) -> bool:
    real, single = ~padded[row], replace(answers, batch=answers.batch.take_samples([row]))
    trimmed = single.transform_inputs(lambda leaf: leaf[:, real] if leaf.shape[1:2] == padded.shape[1:] else leaf)
    outputs, axis = (answers.outputs[0], single.predict(trimmed)[0]), position_axis(answers.outputs[0], padded)
    before, after = (output.movedim(axis, 1) if axis else output for output in outputs)
    expected = before[row, real] if before.shape[:2] == padded.shape else before[row]
    is_close = torch.isclose(after[0], expected, rtol=0.0, atol=_MIN_RELATIVE_CHANGE * float(before.std()))
    return after[0].shape == expected.shape and bool(is_close.all())


def position_axis(output: Tensor, padded: Tensor) -> int:
    """Return the axis of the positions of an output: 1, or another one after the classes, as in a convolution."""
    axes = [axis for axis in range(1, output.dim()) if output.shape[axis] == padded.shape[1]]
    return axes[0] if len(axes) == 1 and len(output) == len(padded) else min(1, output.dim() - 1)


def _find_packing_call(answers: EvalOutputs) -> TorchCall | None:
    """Return the call of `pack_padded_sequence`, which should exclude padding, if the model has one."""
    recorded: list[TorchCall] = []
    with record_calls(answers.setup.eager_model, recorded.append):
        answers.predict(answers.batch)
    return next((call for call in recorded if call.name == "pack_padded_sequence"), None)


def _find_unmasked_call(answers: EvalOutputs, embedding: nn.Module, padded: Tensor) -> TorchCall | None:
    """Return the call where embedded padding first changes real values, if the model masks padding elsewhere.

    A recurrent layer that reads the padding before a masked attention is a common shortcut, and None.
    """
    row = int(padded.sum(1).argmax())
    pair = replace(answers, batch=answers.batch.take_samples([row, row]))
    if not masks_padding(record_pass(pair, pair.batch), padded[[row, row]]):
        return None
    call = _find_reading_call(answers, embedding, padded)
    return None if call is None or call.name in RECURRENT_CALLS else call


def _find_reading_call(answers: EvalOutputs, embedding: nn.Module, padded: Tensor) -> TorchCall | None:
    """Return the call where embedded padding first changes values of real positions, or that reads padded ones."""
    row = int(padded.sum(1).argmax())
    pair, padded_pair = replace(answers, batch=answers.batch.take_samples([row, row])), padded[[row, row]]

    def run(changed: Tensor, replaced: Replacements) -> PaddingPass:
        with change_embedded(embedding, changed):  # also where nothing changes, so that the passes make the same calls
            return run_pass(pair, pair.batch, replaced)

    unchanged = torch.zeros_like(padded_pair)
    return find_content_call(partial(run, unchanged), partial(run, padded_pair), padded_pair, ())


def _measure_effect(
    answers: EvalOutputs, after: Tensor, padded: Tensor, has_mask_or_lengths: bool, source: str
) -> Padding:
    """Count the changed outputs, excluding those of padded positions."""
    changed = answers.changed_values(after)
    changed = changed.movedim(position_axis(changed, padded), 1) if changed.dim() > 1 else changed
    if changed.dim() >= 2 and changed.shape[:2] == padded.shape:
        row_changed = changed.flatten(2).any(2)[~padded] if changed.dim() > 2 else changed[~padded]
    elif changed.dim() and len(changed) == len(padded):
        row_changed = changed.reshape(len(changed), -1).any(1)[padded.any(1) & ~padded.all(1)]
    else:
        raise NotChecked("the output does not have one row per sample")
    return Padding(
        has_mask_or_lengths,
        source,
        int(padded.sum()),
        int(row_changed.sum()),
        row_changed.numel(),
        positions=padded,
    )


def get_declared_padding(tensor: Tensor, inputs: list[Tensor]) -> Iterator[Tensor]:
    """Yield the positions that an input, as mask or lengths, marks as padded and that hold a single value."""
    others = [t for t in inputs if t is not tensor and t.dim() > 1 and not _is_binary(t)]
    for padded in [*_get_padding_from_mask(tensor), *_get_padding_from_lengths(tensor, others)]:
        padded_values = [t[padded] for t in others if t.shape[:2] == padded.shape]
        if padded_values and bool(padded.any()) and all(bool((values == values[0]).all()) for values in padded_values):
            yield padded


def _is_binary(tensor: Tensor) -> bool:
    """Return whether an integer or boolean tensor contains only zeros and ones."""
    return not tensor.is_floating_point() and bool(((tensor == 0) | (tensor == 1)).all())


def _is_flags(tensor: Tensor) -> bool:
    """Return whether a tensor contains only zeros and ones, of any type."""
    return bool(((tensor == 0) | (tensor == 1)).all())


def _get_padding_from_mask(mask: Tensor) -> Iterator[Tensor]:
    """Yield both readings of a binary mask that changes at most once in each row."""
    if mask.dim() != 2 or not _is_flags(mask):
        return
    flags = mask.bool()
    transitions = (flags[:, 1:] != flags[:, :-1]).sum(1)
    if bool(transitions.any()) and int(transitions.max()) == 1:
        yield from (candidate for candidate in (~flags, flags) if not bool(candidate.all(1).any()))


def _get_padding_from_lengths(lengths: Tensor, others: list[Tensor]) -> Iterator[Tensor]:
    """Yield the positions beyond the length of each sample, if the last steps before them are not padding too."""
    if lengths.dim() != 1 or lengths.is_floating_point() or int(lengths.min()) < 1:
        return
    for other in others:
        if len(other) == len(lengths) and other.shape[1] >= int(lengths.max()):
            places = lengths.to(other.device)
            padded = torch.arange(other.shape[1], device=other.device) >= places.unsqueeze(1)
            if bool(padded.any()) and not _ends_in_padding(other, places, other[padded][0]):
                yield padded


def _ends_in_padding(tensor: Tensor, lengths: Tensor, padding: Tensor) -> bool:
    """Return whether the last steps of more than half of the samples equal the padding: these are no lengths."""
    last_steps = tensor[torch.arange(len(tensor), device=tensor.device), lengths - 1]
    equal = (last_steps == padding).reshape(len(tensor), -1).all(1)
    return float(equal.float().mean()) > _MAX_PADDED_ENDS


def _get_padding_from_index(module: nn.Module, answers: EvalOutputs) -> Tensor | None:
    """Return the padded positions by the `padding_idx` of an embedding, if it occurs only at the ends of rows."""
    index = module.padding_idx if isinstance(module, nn.Embedding) else None
    for tensor in answers.inputs.values():
        if index is None or tensor.is_floating_point() or tensor.dim() != 2:
            continue
        padded = tensor == index
        transitions = (padded[:, 1:] != padded[:, :-1]).sum(1)
        if int(transitions.max()) == 1 and not bool(padded.all(1).any()):
            return padded
    return None


def _predict_with_other_padding(answers: EvalOutputs, padded: Tensor, mask: Tensor) -> Tensor:
    """Return the output for other content in padded positions.

    Embeddings of padded positions are changed, since models may also derive the mask from their tokens. If there are
    none, the inputs are changed.
    """
    changed = answers.transform_inputs(
        lambda item: _replace_padding(item, padded) if item.is_floating_point() and item is not mask else item
    )
    embeddings = [item for item in answers.setup.eager_model.modules() if isinstance(item, nn.Embedding)]
    with ExitStack() as stack:
        was_applied = [stack.enter_context(change_embedded(item, padded)) for item in embeddings]
        after = answers.predict(changed)[0]
    if any(was_applied) or _is_excluded_by_bag(answers, padded):
        return after
    return answers.predict(
        answers.transform_inputs(lambda item: item if item is mask else _replace_padding(item, padded))
    )[0]


def _is_excluded_by_bag(answers: EvalOutputs, padded: Tensor) -> bool:
    """Return whether an `EmbeddingBag` excludes the padded positions by its `padding_idx`."""
    bags = [item for item in answers.setup.eager_model.modules() if isinstance(item, nn.EmbeddingBag)]
    indices = {item.padding_idx for item in bags}
    return any(
        not item.is_floating_point() and set(item[padded].tolist()) <= indices
        for item in answers.inputs.values()
        if item.shape == padded.shape and not _is_binary(item)
    )


def _replace_padding(tensor: Tensor, padded: Tensor) -> Tensor:
    """Return an input with other values in padded positions; unchanged if boolean or of another shape."""
    if tensor.dtype == torch.bool or tensor.shape[:2] != padded.shape:
        return tensor
    replaced = tensor.clone()
    replaced[padded] = replace_values(tensor)[padded]
    return replaced


@contextmanager
def change_embedded(embedding: nn.Module, changed: Tensor) -> Iterator[list[bool]]:
    """Add a random vector to the output of an embedding at some positions for a block; its weights stay.

    The list gets an entry when the embedding is called on such positions. A constant would vanish in a layer norm.
    """
    applied: list[bool] = []

    def change(_: Any, args: tuple[Tensor, ...], vectors: Tensor) -> Tensor:
        if args[0].shape != changed.shape:
            return vectors
        applied.append(True)
        noise = torch.randn(vectors.shape[-1], generator=torch.Generator().manual_seed(0)).to(vectors)
        return vectors + changed.unsqueeze(-1).to(vectors) * noise

    with hooked({embedding: change}):
        yield applied


def count_real_steps(values: Tensor, axis: int) -> Tensor:
    """Return the number of steps of each sample along an axis before its padding: the commonest value at the ends."""
    steps = values.movedim(axis, 1).flatten(2) if values.dim() > 2 else values[:, :, None]
    is_padding = (steps == steps[:, -1].flatten().mode().values).all(2).flip(1).int().cumprod(1)
    return steps.shape[1] - is_padding.sum(1)


def find_trailing_padding(tokens: Tensor) -> tuple[int, Tensor] | None:
    """Return the padding token and the padded positions; None if no token occurs only at the ends of rows.

    None too if other tokens fill the ends of the other rows, as in running maxima: then it is one that rows end in.
    """
    if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool or tokens.shape[1] < 3:
        return None
    token = int(tokens[:, -1].mode().values)
    is_token = tokens == token
    distinct_tokens = len(set(tokens.flatten().tolist()))
    if distinct_tokens <= 2 or _ends_are_held(tokens[:, -1] == tokens[:, -2], is_token):
        return None
    return (token, is_token) if _is_trailing_padding(is_token) else None


def find_trailing_frames(frames: Tensor) -> Tensor | None:
    """Return the padded positions of sequences of vectors; None if no vector occurs only at the ends of rows."""
    if frames.dim() != 3 or not frames.is_floating_point() or frames.shape[1] < 3:
        return None
    ends_in_padding = (frames[:, -1] == frames[:, -2]).all(1)
    if not bool(ends_in_padding.any()):
        return None
    # The commonest of the values that rows end in.
    ends, counts = frames[ends_in_padding, -1].unique(dim=0, return_counts=True)  # type: ignore[no-untyped-call]
    is_padding = (frames == ends[int(counts.argmax())]).all(2)
    if _ends_are_held(ends_in_padding, is_padding):
        return None
    return is_padding if _is_trailing_padding(is_padding) else None


def find_trailing_positions(values: Tensor) -> Tensor | None:
    """Return the positions at the ends of rows that hold the padding token or vector; None if there is none."""
    tokens = find_trailing_padding(values)
    return tokens[1] if tokens is not None else find_trailing_frames(values)


def _ends_are_held(is_end_repeated: Tensor, is_padding: Tensor) -> bool:
    """Return whether the rows that end in something else than padding mostly repeat it too, at least two of them."""
    others = is_end_repeated[~is_padding[:, -1]]
    return int(others.sum()) >= max(_MIN_HELD_ENDS, len(others) / 2)


def _is_trailing_padding(is_token: Tensor) -> bool:
    """Return whether a token fills the ends of rows.

    It ends at least ``_MIN_PADDED_SHARE`` of the rows twice or more in a row, never precedes another token, and leaves
    rows of at least ``_MIN_DISTINCT_LENGTHS`` different lengths.
    """
    padded = is_token.flip(1).cumprod(1).bool().flip(1)
    padded_lengths = padded.sum(1)
    return (
        float((padded_lengths >= 2).float().mean()) >= _MIN_PADDED_SHARE
        and len(set(padded_lengths.tolist())) >= _MIN_DISTINCT_LENGTHS
        and torch.equal(is_token, padded)
    )
