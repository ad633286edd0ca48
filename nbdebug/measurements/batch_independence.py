"""Dependence of outputs on other samples, on the position in the batch, and on carried state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.collation import collates_by_user
from nbdebug.measurements.crossed_copies import CrossedCopies, find_crossed_copies
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.input_usage import find_shared_row_input
from nbdebug.measurements.parameter_coverage import MODULE_ATTRIBUTES, iterate_members
from nbdebug.measurements.perturbation import (
    EvalOutputs,
    MixingCall,
    fill_zero_parameters,
    fitted_statistics,
    track_change,
)
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import fast_attention_disabled, in_mode
from nbdebug.setup.loaders import collate_samples, is_map_style, is_uncollated
from nbdebug.setup.losses import score_tensor
from nbdebug.source.location import SourceLine, add_line
from nbdebug.tensors.pytree import tree_tensors

_StateTensors = dict[tuple[str, str], list[Tensor]]
_MIN_RELATIVE_DIFFERENCE = 1e-5
_MAX_SOURCES = 8  # samples that are tried in place of the first one, since padding may widen with some of them


@dataclass(frozen=True)
class SampleMixing:
    """Effect of one changed sample: the other samples whose outputs changed, and the calls that mix samples.

    ``is_scattered`` is True if each of their outputs changed in a part of its values only. ``crossed_copies`` is the
    tensor through which samples mix if its rows are copies of each sample in another order than those that it meets.
    ``shared_row_input`` is the input of which all outputs read the first row and no other one.
    """

    changed_sample: int
    batch_size: int
    affected_samples: tuple[int, ...]
    mixing_calls: tuple[MixingCall, ...]
    is_scattered: bool = False
    crossed_copies: CrossedCopies | None = None
    shared_row_input: str | None = None


@measurement
def sample_mixing(eval_outputs: EvalOutputs) -> SampleMixing:
    """The samples whose output in eval mode depends on one other sample, and the calls that mix them.

    If samples are not along the first axis, the batch is collated again with another first sample: the axis of the
    samples is the one along which only the first position changes. Calls are compared too if a layer takes the first
    axis for the sequence: such a layer may mix samples although the output ignores what it mixes.
    """
    is_scattered = False
    size = eval_outputs.batch.size
    has_sequence_first = any(map(_is_sequence_first, eval_outputs.setup.eager_model.modules()))
    if has_sequence_first and is_uncollated(eval_outputs.setup.train_loader):
        raise NotChecked("the dataset makes the batches, and a layer takes their first axis for the sequence")
    if is_batch_first_throughout(eval_outputs):
        changed = replace_sample(eval_outputs, size)
        differs = _values_by_sample(eval_outputs.changed_values(eval_outputs.predict(changed)[0]), size)
        affected_samples = tuple(differs[1:].any(1).nonzero().flatten().add(1).tolist())
        is_scattered = not bool(differs[1:].all(1).any()) and differs.shape[1] > 1
    else:
        changed, size = _collate_with_other_first_sample(eval_outputs), len(eval_outputs.batch.indices or ())
        affected_samples = _affected_samples(eval_outputs.changed_values(eval_outputs.predict(changed)[0]), size)
    is_tracked = affected_samples or has_sequence_first
    entries = max(1, len(eval_outputs.outputs[0]) // size) if eval_outputs.outputs[0].dim() else 1
    mixing_calls = track_change(eval_outputs, changed, [0], size, entries) if is_tracked else ()
    crossed = find_crossed_copies(eval_outputs, changed, size) if affected_samples else None
    is_everywhere = len(affected_samples) == size - 1 > 0 and is_batch_first_throughout(eval_outputs)
    shared_row = find_shared_row_input(eval_outputs, size) if is_everywhere and crossed is None else None
    return SampleMixing(0, size, affected_samples, mixing_calls, is_scattered, crossed, shared_row)


def _is_sequence_first(module: nn.Module) -> bool:
    return isinstance(module, (nn.RNNBase, nn.MultiheadAttention)) and not module.batch_first


def is_batch_first_throughout(answers: EvalOutputs) -> bool:
    """Return whether samples are known to be along the first axis of the output and of an input."""
    batch, size = answers.batch, answers.batch.size
    has_input = any(has_batch_axis(t, size) for t in answers.inputs.values())
    output = answers.outputs[0]
    has_rows = bool(output.dim() and len(output)) and len(output) % size == 0  # several for each sample, as for views
    return size > 1 and has_input and has_rows and is_batch_first(batch, size)


def _values_by_sample(mask: Tensor, size: int) -> Tensor:
    """Return one row for each sample; several rows of a sample follow each other, or belong to views in turn."""
    in_turn = mask.reshape(-1, size, *mask.shape[1:]).transpose(0, 1).reshape(size, -1)
    return min((mask.reshape(size, -1), in_turn), key=lambda rows: int(rows.any(1).sum()))


def replace_sample(answers: EvalOutputs, size: int, position: int = 0) -> Batch:
    """Return the batch with one sample replaced by the first one that differs from it."""
    inputs = [t for t in answers.inputs.values() if has_batch_axis(t, size)]
    source = next((i for i in range(size) if any(not torch.equal(t[position], t[i]) for t in inputs)), None)
    if source is None:
        raise NotChecked("the inputs have no batch axis with differing samples")
    return answers.transform_inputs(lambda t: _replace_row(t, position, source) if has_batch_axis(t, size) else t)


def _collate_with_other_first_sample(answers: EvalOutputs) -> Batch:
    """Return the batch, collated by the user's loader, with another sample of it in the first place."""
    setup, indices = answers.setup, answers.batch.indices or ()
    if len(indices) < 2 or not is_map_style(setup.train_loader) or setup.train_loader.batch_sampler is None:
        raise NotChecked("the batch axis of the output is unknown")
    for source in indices[1 : 1 + _MAX_SOURCES]:
        changed_indices = (source, *indices[1:])
        try:
            changed = setup.split_batch(collate_samples(setup.train_loader, changed_indices), changed_indices)
        except Exception as error:
            raise NotChecked(f"another first sample raised {type(error).__name__}: {error}") from error
        pairs = list(zip(answers.inputs.values(), EvalOutputs(setup, changed).inputs.values(), strict=False))
        differing = [(before, after) for before, after in pairs if not torch.equal(before, after)]
        if differing and all(_differs_in_first_sample_only(*pair, len(indices)) for pair in differing):
            return changed
    raise NotChecked("the inputs of one sample cannot be replaced without changing those of others")


def _differs_in_first_sample_only(before: Tensor, after: Tensor, size: int) -> bool:
    """Return whether two tensors of one shape differ only at the first position of an axis of the samples."""
    if before.shape != after.shape:
        return False
    return any(positions == [0] for positions in _changed_positions(before != after, size))


def _changed_positions(mask: Tensor, size: int) -> list[list[int]]:
    """Return the positions with a change, for each axis that may be the one of the samples."""
    axes = [axis for axis in range(mask.dim()) if mask.shape[axis] == size]
    return [mask.movedim(axis, 0).reshape(size, -1).any(1).nonzero().flatten().tolist() for axis in axes]


def _affected_samples(mask: Tensor, size: int) -> tuple[int, ...]:
    """Return the samples but the first whose output changed, along the axis with the smallest change."""
    positions = _changed_positions(mask, size)
    if not positions:
        raise NotChecked("the batch axis of the output is unknown")
    return tuple(position for position in min(positions, key=lambda each: (0 not in each, len(each))) if position)


def is_batch_first(batch: Batch, size: int) -> bool:
    """Return whether the first axis is known to be the batch axis: by sample indices, or one target per sample.

    A custom loader may return streams of text as (length, batch), with targets of the same shape.
    """
    if batch.indices is not None:
        return len(batch.indices) == size
    return any(t.dim() == 1 and len(t) == size for t in tree_tensors(batch.targets))


def has_batch_axis(tensor: Tensor, size: int) -> bool:
    """Return whether a tensor has one row per sample."""
    return bool(tensor.dim()) and len(tensor) == size


def _joins_samples(answers: EvalOutputs, size: int) -> bool:
    """Return whether a collate function makes an input with another number of rows, as of the nodes of graphs."""
    is_joined = any(t.dim() and len(t) != size for t in answers.inputs.values())
    return is_joined and collates_by_user(answers.setup.train_loader)


def _replace_row(tensor: Tensor, position: int, source: int) -> Tensor:
    replaced = tensor.clone()
    replaced[position] = tensor[source]
    return replaced


@dataclass(frozen=True)
class PositionDependence:
    """The first call whose result for a sample depends on its position in the batch.

    ``where`` is the line that gives its other operand one row for each sample, or that of the call if it has none.
    """

    call: TorchCall
    where: Location


@measurement
def position_dependence(eval_outputs: EvalOutputs, sample_mixing: SampleMixing) -> PositionDependence | None:
    """The first call whose result for a sample depends on its position in the batch, if the output does.

    Every sample is moved by one position, in eval mode. Models that mix samples, use random numbers or return several
    rows for a sample are skipped, and so are batches with an input of joined samples, whose rows cannot be moved.
    """
    before = eval_outputs.outputs[0]
    has_rows = has_batch_axis(before, sample_mixing.batch_size)
    if sample_mixing.affected_samples or not has_rows or not is_batch_first_throughout(eval_outputs):
        return None
    if _joins_samples(eval_outputs, sample_mixing.batch_size):
        return None
    rolled = eval_outputs.transform_inputs(lambda t: t.roll(1, 0) if has_batch_axis(t, sample_mixing.batch_size) else t)
    after = eval_outputs.predict(rolled)[0]
    if (
        after.shape != before.shape
        or not bool(eval_outputs.changed_values(after.roll(-1, 0)).any())
        or _is_stochastic(eval_outputs)
    ):
        return None
    recorded, recorded_rolled = eval_outputs.recorded_calls(eval_outputs.batch), eval_outputs.recorded_calls(rolled)
    pairs = [*zip(recorded, recorded_rolled, strict=False)]
    number = next((k for k, pair in enumerate(pairs) if _is_position_dependent(*pair, sample_mixing.batch_size)), None)
    if number is None:
        return None
    call, line = pairs[number][0], _sizing_line(pairs[: number + 1], sample_mixing.batch_size)
    return PositionDependence(call, add_line(call.where, line) if line else call.where)


def _sizing_line(pairs: Sequence[tuple[TorchCall, TorchCall]], size: int) -> SourceLine | None:
    """Return the line that gives an operand of the last call one row for each sample, whatever the samples hold.

    The calls are those of a pass, each with the same call of the pass with rolled samples.
    """
    makers: dict[int, tuple[TorchCall, TorchCall]] = {}
    for pair in pairs[:-1]:
        for output in pair[0].outputs:
            makers.setdefault(id(output), pair)  # a change in place returns the same tensor again
    pair, line = pairs[-1], None
    while made := [makers.pop(id(operand)) for operand in _fixed_operands(*pair, size) if id(operand) in makers]:
        pair = made[0]
        line = pair[0].line or line
    return line


def _fixed_operands(call: TorchCall, rolled_call: TorchCall, size: int) -> list[Tensor]:
    """Return the operands of a call that have one row for each sample along an axis and do not depend on samples."""
    operands = zip(call.inputs, rolled_call.inputs, strict=False)
    return [operand for operand, rolled in operands if size in operand.shape and _is_close(operand, rolled)]


def _is_position_dependent(call: TorchCall, rolled_call: TorchCall, size: int) -> bool:
    """Return whether the inputs of a call are rolled samples while its output is not rolled alike."""
    input_pairs = list(zip(call.inputs, rolled_call.inputs, strict=False))
    is_rolled = any(not _is_close(a, b) for a, b in input_pairs)
    return (
        is_rolled
        and all(_is_unchanged_or_rolled(a, b, size) for a, b in input_pairs)
        and not _is_unchanged_or_rolled(call.outputs[0], rolled_call.outputs[0], size)
    )


def _is_close(before: Tensor, after: Tensor) -> bool:
    return before.shape == after.shape and torch.allclose(before, after, rtol=1e-4, atol=1e-6, equal_nan=True)


def _is_unchanged_or_rolled(before: Tensor, after: Tensor, size: int) -> bool:
    """Return whether a tensor is unchanged, or rolled by one sample along an axis with the samples."""
    axes = [axis for axis, length in enumerate(before.shape) if length and length % size == 0]
    return _is_close(before, after) or any(
        _is_close(before.roll(before.shape[axis] // size, axis), after) for axis in axes
    )


def _is_stochastic(answers: EvalOutputs) -> bool:
    """Return whether other random numbers change the output."""
    with torch.no_grad(), in_mode(answers.setup.eager_model, False), fast_attention_disabled():
        seed_all(1)
        output = score_tensor(answers.setup.predict(answers.batch))
    return not isinstance(output, Tensor) or bool(answers.changed_values(output.detach()).any())


@dataclass(frozen=True)
class CarriedState:
    """A module attribute with tensors that each call replaces and that influence the next output.

    ``relative_difference`` is the difference of two outputs for the same batch, relative to the largest value.
    """

    path: str
    owner: nn.Module
    attribute: str
    relative_difference: float


@measurement
def carried_states(setup: Setup, first_pass: ForwardPass, output: Any) -> list[CarriedState]:
    """Plain attributes that make the output for a batch, in eval mode, depend on earlier calls.

    The batch is evaluated after itself, and after itself with reversed samples.
    """
    state_before = _copy_state_tensors(setup.eager_model)
    if not state_before or not isinstance(score_tensor(output), Tensor):
        return []
    batch = first_pass.batch
    _predict_in_eval_mode(setup, batch.take_samples(range(batch.size)[::-1]))
    first_output, state_after_first = _predict_in_eval_mode(setup, batch), _copy_state_tensors(setup.eager_model)
    second_output, state_after_second = _predict_in_eval_mode(setup, batch), _copy_state_tensors(setup.eager_model)
    if first_output.shape != second_output.shape:
        return []
    relative_difference = float((second_output - first_output).abs().max() / first_output.abs().max().clamp_min(1e-12))
    if not relative_difference > _MIN_RELATIVE_DIFFERENCE:
        return []
    replaced = [
        key
        for key in state_after_second
        if _is_mostly_replaced(state_after_first.get(key, []), state_after_second[key])
    ]
    return [
        CarriedState(path, setup.eager_model.get_submodule(path), name, relative_difference) for path, name in replaced
    ]


def _copy_state_tensors(model: nn.Module) -> _StateTensors:
    """Return copies of the tensors in plain attributes of modules."""
    copies_by_attribute: _StateTensors = {}
    for path, owner in model.named_modules():
        for attribute, value in vars(owner).items():
            members = () if attribute in MODULE_ATTRIBUTES else iterate_members(value, set())
            if copies := [t.detach().clone() for t in members if isinstance(t, Tensor) and t.is_floating_point()]:
                copies_by_attribute[path, attribute] = copies
    return copies_by_attribute


def _is_mostly_replaced(before: list[Tensor], after: list[Tensor]) -> bool:
    """Return whether most values of an attribute were replaced; queues and memories replace a part in each call."""
    pairs = [(a, b) for a, b in zip(before, after, strict=False) if a.shape == b.shape]
    changed = sum(int((a != b).sum()) for a, b in pairs)
    return 2 * changed > sum(t.numel() for t in after)


def _predict_in_eval_mode(setup: Setup, batch: Batch) -> Tensor:
    """Return the scores for a batch, in eval mode and with a fixed seed."""
    with torch.no_grad(), in_mode(setup.eager_model, False), fast_attention_disabled():
        seed_all(0)
        try:
            output: Tensor = score_tensor(setup.predict(batch))
        except Exception as error:
            raise NotChecked(f"in eval mode the model raised {type(error).__name__}: {error}") from error
    return output.detach().float()


@dataclass(frozen=True)
class OutputSpread:
    """Largest difference between two samples in any one output value, and the largest absolute output.

    ``max_difference_zeros_filled`` is that difference with small random numbers in all-zero parameters, and with the
    statistics of the batch in normalization layers.
    """

    max_difference: float
    max_difference_zeros_filled: float
    scale: float
    samples: int
    noise: float

    @property
    def is_zero(self) -> bool:
        """True if all samples get the same output, even with all-zero parameters filled and statistics fitted."""
        return max(self.max_difference, self.max_difference_zeros_filled) <= self.noise


@measurement
def output_spread(eval_outputs: EvalOutputs) -> OutputSpread:
    """Differences between the outputs of the samples of the first batch, in eval mode."""
    batch, output, size = eval_outputs.batch, eval_outputs.outputs[0], eval_outputs.batch.size
    if size < 2 or not has_batch_axis(output, size) or not is_batch_first(batch, size):
        raise NotChecked("the batch axis of the output is unknown")
    inputs = [t for t in eval_outputs.inputs.values() if has_batch_axis(t, size)]
    if not any(bool((t != t[:1]).any()) for t in inputs):
        raise NotChecked("all samples of the first batch are equal")
    difference = difference_zeros_filled = _max_row_difference(output)
    if difference <= eval_outputs.noise:
        with fill_zero_parameters(eval_outputs.setup.eager_model), fitted_statistics(eval_outputs) as fitted:
            difference_zeros_filled = _max_row_difference(fitted.predict(batch)[0])
    return OutputSpread(difference, difference_zeros_filled, float(output.abs().max()), size, eval_outputs.noise)


def _max_row_difference(output: Tensor) -> float:
    low, high = torch.aminmax(output, dim=0)
    return float((high - low).max())
