"""Segments of a sequence that an input separates, so that tokens of one segment do not change what others return."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.finding import Location
from nbdebug.measurements.padding import find_trailing_padding
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.sequence_order import replace_values
from nbdebug.measurements.short_trials import TrialPair, run_trials
from nbdebug.setup import Batch, Setup

_MIN_LENGTH, _MAX_SEGMENTS = 4, 8
_STEPS = 150


@dataclass(frozen=True)
class IsolatedSegments:
    """An input with the numbers of segments, of which ``segments`` are isolated from each other if it varies.

    If it is constant, they are not. An output of one row per sample does not depend on the tokens of ``ignored``
    segments; ``trials`` is None then. Otherwise the changed trial is one with a constant in the place of that input.
    """

    input_name: str
    segments: int
    ignored: tuple[int, ...]
    where: Location
    trials: TrialPair | None


@slow_measurement
def isolated_segments(
    setup: Setup, eval_outputs: EvalOutputs, batches: list[Batch], budget: str
) -> IsolatedSegments | None:
    """The input that isolates segments, by exchanging the tokens of one segment at a time; None if there is none."""
    inputs = {name: t for name, t in eval_outputs.inputs.items() if t.dim() == 2 and not t.is_floating_point()}
    for name, segments in inputs.items():
        others = [t for other, t in inputs.items() if other != name and t.shape == segments.shape]
        tokens = max(others, key=lambda t: len(torch.unique(t)), default=None)
        if tokens is None or not _is_partition(segments, tokens):
            continue
        values = _real_values(segments, tokens)
        constant = int(segments[segments != 0].mode().values)
        connected = _set_input(eval_outputs, name, constant)
        reaches = [_reaches_others(eval_outputs, tokens, segments == value) for value in values]
        is_dense = _has_positions(eval_outputs, segments)
        ignored = tuple(v for v, reach in zip(values, reaches, strict=True) if not reach)
        is_isolated = len(ignored) == len(values) if is_dense else 0 < len(ignored) < len(values)
        if not is_isolated or not all(_reaches_others(connected, tokens, segments == value) for value in ignored):
            continue
        where, trials = _find_mask(eval_outputs, segments), None
        if is_dense:
            changed = [_set_input(replace(eval_outputs, batch=batch), name, constant).batch for batch in batches]
            trials = run_trials(setup, batches, _STEPS, budget, changed_batches=changed, held_out=True)
        return IsolatedSegments(name, len(values), () if is_dense else ignored, where, trials)
    return None


def _is_partition(segments: Tensor, tokens: Tensor) -> bool:
    """Return whether values are those of a few segments of some positions each, in most rows."""
    changes = (segments.diff(dim=1) != 0).sum(1)
    is_part = (changes > 0) & (changes < _MAX_SEGMENTS)
    return segments.shape[1] >= _MIN_LENGTH and bool(is_part.float().mean() > 0.5) and len(torch.unique(tokens)) > 2


def _real_values(segments: Tensor, tokens: Tensor) -> list[int]:
    """Return the numbers of segments that are not padding only: the same token at all their positions."""
    padding = find_trailing_padding(tokens)
    is_real = ~padding[1] if padding is not None else torch.ones_like(segments, dtype=torch.bool)
    values = torch.unique(segments[is_real])
    return [int(value) for value in values if len(torch.unique(tokens[is_real & (segments == value)])) > 1]


def _set_input(answers: EvalOutputs, name: str, value: int) -> EvalOutputs:
    """Return the same model with a constant in the place of an input."""
    target = answers.inputs[name]
    batch = answers.transform_inputs(lambda leaf: torch.full_like(leaf, value) if leaf is target else leaf)
    changed = replace(answers, batch=batch)
    return replace(changed, outputs=changed.predict(batch))


def _has_positions(answers: EvalOutputs, segments: Tensor) -> bool:
    """Return whether the output has an axis of positions."""
    return answers.outputs[0].shape[:2] == segments.shape


def _reaches_others(answers: EvalOutputs, tokens: Tensor, is_changed: Tensor) -> bool:
    """Return whether other tokens at some positions change what a model returns for others, or for the sample."""
    exchanged = torch.where(is_changed, replace_values(tokens), tokens)
    batch = answers.transform_inputs(lambda leaf: exchanged if leaf is tokens else leaf)
    differs = answers.changed_values(answers.predict(batch)[0])
    if _has_positions(answers, is_changed):
        differs = differs.flatten(2).any(2) if differs.dim() > 2 else differs
        differs = differs & ~is_changed
    return bool(differs.any())


def _find_mask(answers: EvalOutputs, segments: Tensor) -> Location:
    """Return where the segments become a mask of pairs of positions; else the first call that takes them."""
    recorded = answers.recorded_calls(answers.batch)
    pairs = [c for c in recorded if c.outputs[0].dtype == torch.bool and c.outputs[0].numel() > segments.numel()]
    takers = [c for c in recorded if any(t is segments for t in c.inputs)]
    return (pairs + takers)[0].where if pairs or takers else Location()
