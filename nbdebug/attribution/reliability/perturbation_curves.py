"""Deletion and insertion curves, and contributions of segments in random orders.

Petsiuk et al. 2018, arXiv:1806.07421, compared with random order, which gives the areas a reference. Random orders give
Shapley values by sampling without gradients (Štrumbelj and Kononenko 2010, jmlr.org/papers/v11/strumbelj10a.html); each
order is used in both directions, and they detect redundant segments that single replacements (occlusion) miss. Segments
are single features, tokens, or patches of images and series over all channels. Removed segments are replaced by those
background samples, so that tokens stay valid, and patches by the background mean.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nbdebug.attribution.input_features import InputPart, segment_indices
from nbdebug.attribution.perturbation_methods import replacement_values
from nbdebug.attribution.preparation import get_plain_parts
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import Array, Attribution
from nbdebug.exceptions import SetupError

_CURVE_STEPS = 16
_MAX_REPLACEMENT_ROWS = 8  # background samples used as replacements
_MIN_PAIRS, _DEFAULT_PAIRS, _MAX_PAIRS = 2, 16, 40  # pairs of orders
_MAX_TOTAL_STEPS = 640  # total steps up to which inputs with few segments get more pairs


@dataclass(frozen=True)
class Segments:
    """The segment index of each value of a sample, over all inputs concatenated; ``parts`` are these inputs."""

    parts: list[InputPart]
    segment_index: Array
    count: int

    def sum_attributions(self, attribution: Attribution) -> Array:
        """Sum attributions per segment, samples × segments; raise SetupError for other inputs."""
        values = [attribution.values.get(part.name, np.zeros(tuple(part.values.shape))) for part in self.parts]
        flat = np.concatenate([array.reshape(len(array), -1) for array in values], 1)
        if flat.shape[1] != len(self.segment_index):
            raise SetupError(
                f"{attribution.method} gives {flat.shape[1]} values per sample; expected {len(self.segment_index)}."
            )
        return np.stack([np.bincount(self.segment_index, array, self.count) for array in flat])

    def masks(self, removed: Tensor) -> Iterator[tuple[InputPart, Tensor]]:
        """For each part, yield which of its values are in removed segments; ``removed`` is samples × segments."""
        removed_values, start = removed[:, torch.from_numpy(self.segment_index)], 0
        for part in self.parts:
            value_count = int(np.prod(part.shape))
            yield part, removed_values[:, start : start + value_count].reshape(-1, *part.shape).to(part.values.device)
            start += value_count


def get_segments(problem: Problem, attribution: Attribution) -> Segments:
    """Return the segments of the attributed inputs."""
    parts = [part for part in get_plain_parts(problem) if part.name in attribution.values]
    pieces, count = segment_indices(parts)
    return Segments(parts, torch.cat([indices.flatten() for indices in pieces]).numpy(), count)


def perturbation_curves(problem: Problem, segments: Segments, values: Array) -> dict[str, Array]:
    """Return the deletion and insertion curves, steps × samples, in the order of ``values``."""
    flat = torch.from_numpy(values)
    return {
        "deletion": _deletion_curve(problem, segments, flat),
        "insertion": _deletion_curve(problem, segments, -flat)[::-1].copy(),
    }


def _deletion_curve(problem: Problem, segments: Segments, order: Tensor) -> Array:
    """Return the score as more and more segments are replaced, the highest in ``order`` first."""
    ranks = order.argsort(1, descending=True).argsort(1)
    counts = np.linspace(0, segments.count, min(_CURVE_STEPS, segments.count) + 1).round()
    problem.parts = segments.parts
    replacements = [replacements_for(part) for part in segments.parts]
    rows = max(len(replacement) for replacement in replacements)
    removed = torch.cat([ranks < count for count in counts])
    scores = [
        _scores_without(
            problem, segments, removed, [replacement[row % len(replacement)] for replacement in replacements]
        )
        for row in range(rows)
    ]
    mean: Array = np.mean(scores, 0)
    return mean.reshape(len(counts), problem.size)


def _scores_without(problem: Problem, segments: Segments, removed: Tensor, replacements: list[Tensor]) -> Array:
    """Return the score of each sample without some of its segments; ``removed`` is (steps × samples) × segments."""
    scores = torch.zeros(len(removed), dtype=torch.float64)

    def work(start: int, stop: int) -> None:
        sample_indices = torch.arange(start, stop, device=problem.device) % problem.size
        masks = segments.masks(removed[start:stop])
        points = [
            torch.where(mask, replacement, part.values.index_select(0, sample_indices))
            for (part, mask), replacement in zip(masks, replacements, strict=True)
        ]
        with torch.no_grad():
            scores[start:stop] = problem.scores_at(points, sample_indices).to("cpu", torch.float64)

    problem.chunk_runner().run(len(removed), work)
    return scores.numpy()


def replacements_for(part: InputPart) -> Tensor:
    """Return replacement values of a part, one or more rows; zeros without a background."""
    if part.background is not None:
        return replacement_values(part)[:_MAX_REPLACEMENT_ROWS]
    if not part.values.is_floating_point():
        raise SetupError(f"{part.name} holds integers; expected a background to replace them. Pass background=.")
    return torch.zeros_like(part.values[:1])


def mean_height(curve: Array) -> Array:
    """Return the mean height of each curve."""
    heights: Array = ((curve[1:] + curve[:-1]) / 2).mean(0)
    return heights


@dataclass(frozen=True)
class RandomOrders:
    """``values`` are samples × segments, ``halves`` those of every other pair, ``score_curve`` steps × samples."""

    values: Array
    halves: tuple[Array, Array]
    score_curve: Array


def sample_random_orders(problem: Problem, segments: Segments, seconds: float) -> RandomOrders:
    """Run 2 to 40 pairs of orders, as time allows, each with another background sample as replacement."""
    rng, start_time = np.random.default_rng(0), time.perf_counter()
    replacements = [replacements_for(part) for part in segments.parts]
    contributions: list[Array] = []
    curves: list[Array] = []
    max_pairs = max(_DEFAULT_PAIRS, min(_MAX_PAIRS, _MAX_TOTAL_STEPS // segments.count))
    while len(contributions) < max_pairs and (
        len(contributions) < _MIN_PAIRS or time.perf_counter() - start_time < seconds
    ):
        order, row = rng.permutation(segments.count), len(contributions)
        chosen_rows = [replacement[row % len(replacement)] for replacement in replacements]
        results = [_segment_drops(problem, segments, direction, chosen_rows) for direction in (order, order[::-1])]
        contributions.append(np.mean([values for values, _ in results], 0))
        curves += [curve for _, curve in results]
    return RandomOrders(
        np.mean(contributions, 0), (np.mean(contributions[::2], 0), np.mean(contributions[1::2], 0)), np.mean(curves, 0)
    )


def _segment_drops(
    problem: Problem, segments: Segments, order: Array, replacements: list[torch.Tensor]
) -> tuple[Array, Array]:
    """Return the drop in the score per segment, samples × segments, and the score curve."""
    problem.parts = segments.parts
    ranks = torch.from_numpy(order.copy()).argsort()
    removed = (ranks < torch.arange(segments.count + 1)[:, None]).repeat_interleave(problem.size, 0)
    curve = _scores_without(problem, segments, removed, replacements).reshape(segments.count + 1, problem.size)
    values = np.zeros((problem.size, segments.count))
    values[:, order] = -np.diff(curve, axis=0).T
    return values, curve
