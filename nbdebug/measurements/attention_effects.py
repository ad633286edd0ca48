"""What the queries, keys, values and heads of each attention contribute, by the values and gradients of one pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nbdebug.autograd.attention_calls import AttentionCall, mixture_axes, softmax_axis
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.attention_pass import AttentionPass, few_samples, record_attention_pass
from nbdebug.measurements.perturbation import EvalOutputs, fitted_statistics
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve

_ROUNDING = 1e-5  # float32 sums of a thousand terms in a different order differ by less, relative to the largest
_SUM_TOLERANCE = 1e-3
_MAX_SCORES = 2**24
_NOISE, _MUCH_NOISE = 0.01, 0.1
_MAX_MASKED_SCORE = -1e4  # masks add this, or less, in place of minus infinity
_MAX_UNIFORM_RATIO = 1.9  # sqrt(3) for a uniform distribution, over 2.5 for a hundred normal values


@dataclass(frozen=True)
class AttentionEffects:
    """One attention: where its softmax, its scores and its weighted values are computed, and what has an effect.

    ``factors`` are the constants that multiply the scores, with that of torch's function; ``spread`` is the standard
    deviation of the scaled scores over the keys. ``is_uniform`` is True if each query has the same score for all keys,
    although neither queries nor keys are zero; ``is_zero`` if all scores or all values are zero; ``has_equal_values``
    if all keys of a sample have the same value, which differs between samples, and ``has_equal_queries`` if all
    positions have the same query. ``detached_where`` is a call that detaches a part of what one layer makes for
    queries, keys and values; that layer gets a gradient through its other parts. ``has_first_weights`` is True if the
    weights of the queries are a sample of a uniform distribution, as torch initializes them. ``silent_heads`` return
    zeros, or what they return has no effect; ``equal_heads`` return the same and get the same gradient.
    ``softmax_axis`` and ``summed_axis`` are axes of the weights, if they do not sum to one over the keys.
    ``enlarged_where`` is the call that multiplies by the largest constant above one. ``differs_behind_mask`` is True if
    the scores of the keys that a mask excludes differ from each other or from those that it leaves.
    """

    where: Location
    scores_where: Location
    mixture_where: Location
    width: int
    queries: int
    keys: int
    factors: tuple[float, ...]
    has_learned_factor: bool
    spread: float
    is_uniform: bool
    has_equal_values: bool
    is_zero: bool = False
    has_equal_queries: bool = False
    detached_where: Location | None = None
    has_first_weights: bool = False
    heads: int = 1
    silent_heads: tuple[int, ...] = ()
    equal_heads: tuple[int, ...] = ()
    softmax_axis: int | None = None
    summed_axis: int | None = None
    enlarged_where: Location | None = None
    differs_behind_mask: bool = False


@slow_measurement
def attention_effects(eval_outputs: EvalOutputs, attention_pass: AttentionPass) -> list[AttentionEffects]:
    """Scores, values and heads of the attentions of a pass.

    What is zero counts only if it stays zero with noise added to all parameters: some weights start at zero on purpose.
    What is equal counts only if it stays equal with much noise, and with the statistics of the batch in normalization
    layers: the first weights may make differences as small as rounding.
    """
    effects, answers = _measure_pass(attention_pass), few_samples(eval_outputs)
    if any(item.is_zero or item.silent_heads for item in effects):
        with _noise_added(eval_outputs.setup.eager_model, _NOISE):
            effects = _confirm_zeros(effects, _measure_pass(record_attention_pass(answers)))
    if any(item.is_uniform or item.has_equal_values or item.has_equal_queries for item in effects):
        with _noise_added(eval_outputs.setup.eager_model, _MUCH_NOISE), fitted_statistics(answers) as fitted:
            effects = _confirm_equalities(effects, _measure_pass(record_attention_pass(fitted)))
    return effects


@contextmanager
def _noise_added(model: nn.Module, scale: float) -> Iterator[None]:
    """Add normal noise of a scale to all parameters for the duration of a block."""
    generator = torch.Generator().manual_seed(0)
    with Preserve(model), torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter), alpha=scale)
        yield


_Pairs = Iterator[tuple[AttentionEffects, AttentionEffects]]


def _pairs(effects: list[AttentionEffects], repeated: list[AttentionEffects]) -> _Pairs:
    """Pair the attentions of two passes; raise NotChecked if their numbers differ."""
    if len(repeated) != len(effects):
        raise NotChecked("the calls of the model depend on its weights")
    return zip(effects, repeated, strict=True)


def _confirm_zeros(effects: list[AttentionEffects], repeated: list[AttentionEffects]) -> list[AttentionEffects]:
    """Keep what is zero in both passes."""
    return [
        replace(
            item,
            is_zero=item.is_zero and again.is_zero,
            silent_heads=tuple(head for head in item.silent_heads if head in again.silent_heads),
        )
        for item, again in _pairs(effects, repeated)
    ]


def _confirm_equalities(effects: list[AttentionEffects], repeated: list[AttentionEffects]) -> list[AttentionEffects]:
    """Keep what is equal in both passes."""
    return [
        replace(
            item,
            is_uniform=item.is_uniform and again.is_uniform,
            has_equal_values=item.has_equal_values and again.has_equal_values,
            has_equal_queries=item.has_equal_queries and again.has_equal_queries,
        )
        for item, again in _pairs(effects, repeated)
    ]


def _measure_pass(recorded: AttentionPass) -> list[AttentionEffects]:
    """Return the effects of the attentions of one pass."""
    if not recorded.attentions:
        raise NotChecked("no attention is found in the calls of the model")
    measured: list[AttentionEffects] = []
    with torch.no_grad():
        for attention, gradient in zip(recorded.attentions, recorded.gradients, strict=True):
            if (effects := _measure(attention, gradient, recorded.samples)) is not None:
                detach = recorded.graph.find_detached_part(attention)
                where = detach.where if detach is not None else None
                is_uniform = any(map(_is_uniform_sample, recorded.graph.find_query_weights(attention)))
                measured.append(replace(effects, detached_where=where, has_first_weights=is_uniform))
    return measured


def _measure(attention: AttentionCall, gradient: Tensor | None, samples: int) -> AttentionEffects | None:
    scores = _compute_scores(attention)
    if scores is None:
        return None
    axes, enlarging = mixture_axes(attention, samples), attention.enlarging
    is_used = _compute_used(attention, scores)
    effects = AttentionEffects(
        (attention.softmax or attention.scores).where,
        attention.scores.where,
        attention.mixture.where,
        attention.width,
        scores.shape[-2],
        scores.shape[-1],
        attention.factors,
        attention.has_learned_factor,
        _compute_spread(attention, scores, is_used),
        _is_uniform(attention, scores, is_used),
        axes.keys is not None and _has_equal_values(attention.value.detach(), axes.keys, samples),
        not bool(scores.any()) or not bool(attention.value.any()),
        attention.scores.name != "einsum" and _has_equal_values(attention.query.detach(), -2, samples),
        enlarged_where=enlarging.where if enlarging is not None else None,
        differs_behind_mask=_differs_behind_mask(scores, is_used),
    )
    weights, axis = attention.weights, axes.summed
    if attention.softmax is not None and weights is not None and axis is not None:
        effects = _compare_axes(effects, attention.softmax, weights, axis)
    return effects if axes.heads is None else _compare_heads(effects, attention.output, gradient, axes.heads)


def _compute_scores(attention: AttentionCall) -> Tensor | None:
    """Return the products of queries and keys with the keys last; None if they are too many or have other axes."""
    if attention.softmax is not None:
        scores, shape = attention.scores.outputs[0].detach(), attention.softmax.outputs[0].shape
        is_same = _long_axes(scores.shape) == _long_axes(shape)  # one query for each sample may have no axis
        return scores.reshape(shape).movedim(_key_axis(attention.softmax), -1) if is_same else None
    query, key = attention.query.detach().float(), attention.key.detach().float()
    if query.shape[:-1].numel() * key.shape[-2] > _MAX_SCORES:
        return None
    if key.dim() == query.dim() > 3 and key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    return query @ key.transpose(-2, -1)


def _long_axes(shape: torch.Size) -> list[int]:
    return [length for length in shape if length > 1]


def _is_uniform_sample(weight: Tensor) -> bool:
    """Return whether the largest weight is that of a uniform distribution; normal and trained weights have tails."""
    centered = weight.detach().float()
    return float(centered.abs().max()) < _MAX_UNIFORM_RATIO * float(centered.square().mean().sqrt())


def _key_axis(softmax: TorchCall) -> int:
    axis = softmax_axis(softmax)
    return -1 if axis is None else axis


def _compute_used(attention: AttentionCall, scores: Tensor) -> Tensor:
    """Return which scores the softmax reads, apart from those that a mask excludes.

    A mask added in place is in the scores. Weights of zero are no sign of a mask: large scores make them too.
    """
    if attention.softmax is not None:
        masked_scores = attention.softmax.inputs[0].detach().movedim(_key_axis(attention.softmax), -1)
        return (masked_scores > _MAX_MASKED_SCORE) & (scores > _MAX_MASKED_SCORE)
    mask, is_used = attention.mask, torch.ones_like(scores, dtype=torch.bool)
    if attention.is_causal:
        is_used = is_used.tril()
    if mask is not None:
        is_used = is_used & (mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2)
    return is_used


def _compute_range(values: Tensor, is_used: Tensor) -> Tensor:
    """Return the range of the used values along the last axis; 0 where fewer than two are used."""
    highest = values.masked_fill(~is_used, float("-inf")).amax(-1)
    lowest = values.masked_fill(~is_used, float("inf")).amin(-1)
    return torch.where(is_used.sum(-1) > 1, highest - lowest, 0.0)


def _is_uniform(attention: AttentionCall, scores: Tensor, is_used: Tensor) -> bool:
    """Return whether each query has equal scores for all keys that it may attend to."""
    largest = float(scores.masked_fill(~is_used, 0.0).abs().max())
    is_counted = is_used.sum(-1) > 1
    if largest == 0.0 or not bool(is_counted.any()) or scores.shape[-1] < 3:
        return False
    return float(_compute_range(scores, is_used).max()) <= _ROUNDING * largest


def _differs_behind_mask(scores: Tensor, is_used: Tensor) -> bool:
    """Return whether a query has different scores for keys, among them some that a mask excludes.

    Scores with a mask added in place do not tell.
    """
    is_known = scores > _MAX_MASKED_SCORE
    has_excluded = (is_known & ~is_used).any(-1)
    largest = float(scores.masked_fill(~is_known, 0.0).abs().max())
    return bool((_compute_range(scores, is_known)[has_excluded] > _ROUNDING * largest).any())


def _compute_spread(attention: AttentionCall, scores: Tensor, is_used: Tensor) -> float:
    """Return the standard deviation of the scaled scores over the keys of a query."""
    later = 1.0
    for factor in attention.factors if not attention.is_by_torch else attention.factors[-1:]:
        later *= factor
    rows = is_used.sum(-1, keepdim=True)
    if not bool((rows > 1).any()):
        return 0.0
    values = scores.float().masked_fill(~is_used, 0.0)
    mean = values.sum(-1, keepdim=True) / rows.clamp(min=1)
    variance = (scores.float() - mean).masked_fill(~is_used, 0.0).square().sum(-1) / rows[..., 0].clamp(min=1)
    return abs(later) * float(variance[rows[..., 0] > 1].mean().sqrt())


def _has_equal_values(value: Tensor, axis: int, samples: int) -> bool:
    """Return whether the values of all positions are the same, not all zero, and not the same in all samples.

    The values of a decoder whose queries start at zero are one constant: it attends to the input in later layers.
    """
    largest = float(value.abs().max())
    if value.dim() < 3 or value.shape[axis] < 3 or largest == 0.0:
        return False
    is_equal = float((value.amax(axis) - value.amin(axis)).max()) <= _ROUNDING * largest
    return is_equal and not _is_constant(value, samples, _ROUNDING * largest)


def _is_constant(value: Tensor, samples: int, tolerance: float) -> bool:
    """Return whether values are the same in all samples, which come first, alone or with the heads."""
    if samples < 2 or len(value) % samples:
        return False
    rows = value.reshape(samples, -1)
    return float((rows.amax(0) - rows.amin(0)).max()) <= tolerance


def _compare_axes(effects: AttentionEffects, softmax: TorchCall, weights: Tensor, summed: int) -> AttentionEffects:
    """Note the axis of a softmax whose weights do not sum to one over the axis that the product sums over."""
    axis, result = softmax_axis(softmax), softmax.outputs[0].detach()
    sums = weights.detach().float().sum(summed)
    is_normalized = bool(((sums - 1).abs() < _SUM_TOLERANCE).float().mean() > 0.5)
    is_moved = weights.shape != result.shape or not torch.equal(weights, result)
    if axis is None or axis == summed or is_normalized or is_moved or result.shape[axis] == result.shape[summed] == 1:
        return effects
    return replace(effects, softmax_axis=axis, summed_axis=summed)


def _compare_heads(effects: AttentionEffects, output: Tensor, gradient: Tensor | None, axis: int) -> AttentionEffects:
    """Note the heads whose weighted values are zero or without effect, and those that are the same."""
    values = list(output.detach().unbind(axis))
    slopes = list(gradient.unbind(axis)) if gradient is not None else []
    silent = [k for k in range(len(values)) if not bool(values[k].any()) or (slopes and not bool(slopes[k].any()))]
    if len(silent) == len(values):
        silent = []
    equal = _find_equal(values, slopes) if slopes else ()
    return replace(effects, heads=len(values), silent_heads=tuple(silent), equal_heads=tuple(equal))


def _find_equal(values: list[Tensor], slopes: list[Tensor]) -> Iterator[int]:
    """Yield the heads that have the values and the slopes of another head."""
    for first in range(len(values)):
        for second in range(len(values)):
            if (
                first != second
                and _is_close(values[first], values[second])
                and _is_close(slopes[first], slopes[second])
            ):
                yield first
                break


def _is_close(first: Tensor, second: Tensor) -> bool:
    largest = float(first.abs().max())
    return largest > 0 and float((first - second).abs().max()) <= _ROUNDING * largest
