"""Occlusion and LIME."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from nbdebug.attribution.input_features import InputPart, is_spatial, patch_side, segment_indices
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import MethodResult
from nbdebug.attribution.shapley_sampling import Floats
from nbdebug.exceptions import SetupError
from nbdebug.inference.progress import expect_rows

_MAX_REPLACEMENTS = 16  # background samples that replace a feature or a token
_KERNEL_WIDTH = 0.25  # kernel width for the cosine distance, as in the authors' package for images and texts
_MIN_R2 = 0.7  # below this R² the linear model does not describe the score
_HELD_OUT_SHARE = 0.25  # share of additional perturbations, held out to compute R²


@dataclass(frozen=True)
class _Patch:
    """Positions of one part that are replaced together."""

    part_index: int
    slices: tuple[slice, ...]


def occlusion(problem: Problem, size: int | None = None, stride: int | None = None) -> MethodResult:
    """Return the mean drop in the score over all patches that cover a position; features and tokens one at a time.

    Images and series are covered by patches with sides of ``size`` (default: an eighth of the longest axis) every
    ``stride`` (default: half of ``size``), replaced by the background mean. Features and tokens are replaced by those
    of up to 16 background samples. Needs no gradients. Zeiler and Fergus 2013, arXiv:1311.2901.
    """
    sums = [torch.zeros(part.values.shape, dtype=torch.float64) for part in problem.parts]
    counts = [torch.zeros(part.values.shape[1:], dtype=torch.float64) for part in problem.parts]
    all_patches = list(_iterate_patches(problem.parts, size, stride))
    expect_rows(problem.size * sum(len(replacement_values(problem.parts[patch.part_index])) for patch in all_patches))
    for patch in all_patches:
        sums[patch.part_index][(slice(None), *patch.slices)] += _score_drop(problem, patch)[
            (..., *[None] * len(patch.slices))
        ]
        counts[patch.part_index][patch.slices] += 1
    return MethodResult([total / count.clamp_min(1) for total, count in zip(sums, counts, strict=True)])


def _iterate_patches(parts: list[InputPart], size: int | None, stride: int | None) -> Iterator[_Patch]:
    for part_index, part in enumerate(parts):
        shape = part.values.shape[1:]
        if not is_spatial(part):
            yield from (
                _Patch(part_index, tuple(slice(i, i + 1) for i in start)) for start in product(*map(range, shape))
            )
            continue
        side = size or patch_side(shape)
        step = stride or max(1, side // 2)
        if side < 1 or step < 1:
            raise SetupError(f"size is {size} and stride {stride}; expected 1 or more. Leave them out.")
        starts = [sorted({*range(0, max(length - side, 0) + 1, step), max(length - side, 0)}) for length in shape[1:]]
        for start in product(*starts):
            yield _Patch(part_index, (slice(None), *(slice(i, i + side) for i in start)))


def replacement_values(part: InputPart) -> Tensor:
    """Return the replacement values of a part: the background mean for maps, else some background samples."""
    assert part.background is not None
    if is_spatial(part):
        return part.background.mean(0, keepdim=True)
    order = torch.randperm(len(part.background), generator=torch.Generator().manual_seed(0))[:_MAX_REPLACEMENTS]
    return part.background[order.sort().values.to(part.background.device)]


def _score_drop(problem: Problem, patch: _Patch) -> Tensor:
    """Return the drop in the score of each sample when a patch is replaced, averaged over the replacements."""
    replacements = replacement_values(problem.parts[patch.part_index])
    scores = problem.scores
    drops = torch.zeros(problem.size, dtype=torch.float64)

    def work(start: int, stop: int) -> None:
        row = torch.arange(start, stop, device=problem.device)
        sample_indices, replacement_row = row // len(replacements), row % len(replacements)
        points = [part.values.index_select(0, sample_indices) for part in problem.parts]
        points[patch.part_index][(slice(None), *patch.slices)] = replacements[replacement_row][
            (slice(None), *patch.slices)
        ]
        with torch.no_grad():
            score = problem.scores_at(points, sample_indices).to("cpu", torch.float64)
        drops.index_add_(0, sample_indices.cpu(), scores[sample_indices.cpu()] - score)

    problem.chunk_runner().run(problem.size * len(replacements), work)
    return drops / len(replacements)


def lime(problem: Problem, samples: int = 1000, size: int | None = None) -> MethodResult:
    """Fit a weighted ridge regression of the score on the presence of segments, and return its coefficients.

    Segments are features, tokens, and patches of images and series with sides of ``size`` (default: an eighth of the
    longest axis); all positions of a patch get its coefficient. Removed segments are replaced by the background mean;
    integers by those of a background sample. ``samples`` is the number of perturbations, drawn with a separate
    generator. A note reports R² on held-out perturbations. Needs no gradients. Ribeiro et al. 2016, arXiv:1602.04938.
    """
    if not samples or samples < 10 or (size is not None and size < 1):
        raise SetupError(f"samples is {samples} and size {size}; expected 10 or more, and 1 or more. Leave them out.")
    segments, count = segment_indices(problem.parts, size)
    expect_rows(problem.size * (samples + math.ceil(samples * _HELD_OUT_SHARE)))
    values = [torch.zeros(part.values.shape, dtype=torch.float64) for part in problem.parts]
    r2_values = []
    for row in range(problem.size):
        rng = np.random.default_rng(0)
        presence = rng.random((samples + math.ceil(samples * _HELD_OUT_SHARE), count)) < 0.5
        presence[0] = True
        coefficients, r2 = _fit_linear(presence, _perturbed_scores(problem, row, presence, segments, rng), samples)
        r2_values.append(r2)
        for attributions, ids in zip(values, segments, strict=True):
            attributions[row] = torch.from_numpy(coefficients)[ids]
    worst_r2, is_good = min(r2_values), min(r2_values) >= _MIN_R2
    result = MethodResult(values, converged=is_good)
    result.notes.append(f"R² of the local linear model is {worst_r2:.2f} for the worst sample ({count} segments)")
    if not is_good:
        result.notes.append(f"R² below {_MIN_R2} is low: the score is not locally linear; coefficients are unreliable")
    return result


def _perturbed_scores(
    problem: Problem, row: int, presence: np.ndarray[tuple[int, int], np.dtype[np.bool_]], segments: list[Tensor],
    rng: np.random.Generator,
) -> Floats:  # fmt: skip
    """Return the score of a sample with only some of its segments."""
    values = np.zeros(len(presence))
    replacements = [_replacement_rows(part, len(presence), rng) for part in problem.parts]

    def work(start: int, stop: int) -> None:
        mask = torch.from_numpy(presence[start:stop])
        sample_indices = torch.full((stop - start,), row, device=problem.device)
        points = [
            torch.where(
                mask[:, ids].to(problem.device),
                part.values[row],
                replacement[start:stop] if len(replacement) > 1 else replacement,
            )
            for part, ids, replacement in zip(problem.parts, segments, replacements, strict=True)
        ]
        with torch.no_grad():
            values[start:stop] = problem.scores_at(points, sample_indices).cpu().numpy()

    problem.chunk_runner().run(len(presence), work)
    return values


def _replacement_rows(part: InputPart, count: int, rng: np.random.Generator) -> Tensor:
    """Return the replacement values: one row for all perturbations, or one row each."""
    assert part.background is not None
    if part.values.is_floating_point():
        return part.background.mean(0, keepdim=True)
    picks = torch.from_numpy(rng.integers(len(part.background), size=count))
    return part.background[picks.to(part.background.device)]


def _fit_linear(
    presence: np.ndarray[tuple[int, int], np.dtype[np.bool_]], score: Floats, samples: int
) -> tuple[Floats, float]:
    """Return the coefficients, and R² on the perturbations after the first ``samples``."""
    from sklearn.linear_model import Ridge

    distance = 1 - np.sqrt(presence.mean(1))
    weight = np.exp(-np.square(distance / _KERNEL_WIDTH) / 2)
    regression = Ridge().fit(presence[:samples], score[:samples], weight[:samples])
    held_out = slice(samples, None)
    if not score[held_out].std():
        return regression.coef_, 1.0
    return regression.coef_, float(regression.score(presence[held_out], score[held_out], weight[held_out]))
