"""Integrals of the gradient along straight lines from background samples to samples, by quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.problem import Problem

_Floats = NDArray[np.float64]
_GOLDEN_RATIO = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class QuadratureRule:
    """Quadrature positions in [0, 1], their weights and error weights; the same for all lines, or shifted per line.

    Errors of shifted lines are independent, so that their squares add up.
    """

    positions: tuple[float, ...]
    weights: tuple[float, ...]
    error_weights: tuple[float, ...]
    shifted: bool = False

    def shifts(self, lines: Tensor) -> Tensor:
        """Return the offset of each line: multiples of the golden ratio, which fill [0, 1) evenly."""
        return ((lines.double() + 0.5) * _GOLDEN_RATIO).remainder(1) / len(self.positions)


@cache
def gauss_rule(count: int) -> QuadratureRule:
    """Return Gauss–Legendre quadrature, exact for polynomials of degree 2·count - 1.

    The error estimate is the highest Legendre coefficient that the nodes resolve: negligible for a smooth integrand,
    and as large as the error for a step at an unknown position, which is what a ReLU makes of a gradient.
    """
    positions, weights = np.polynomial.legendre.leggauss(count)
    error_weights = weights / 2 * np.polynomial.legendre.Legendre.basis(count - 1)(positions)
    positions, weights = (positions + 1) / 2, weights / 2
    return _scale_error_weights(positions, weights, error_weights, np.zeros(1), False)


@cache
def shifted_rule(count: int) -> QuadratureRule:
    """Return equidistant nodes, shifted by a different fraction of the distance on each line.

    The errors of the lines compensate, so that few nodes on many lines are more accurate than Gauss nodes. The error is
    estimated from the difference of neighboring nodes. Cranley and Patterson 1976, doi:10.1137/0713071.
    """
    positions, signs = np.arange(count) / count, np.resize([1.0, -1.0], count)
    return _scale_error_weights(positions, np.full(count, 1 / count), signs, (np.arange(50) + 0.5) / 50 / count, True)


def _scale_error_weights(
    positions: _Floats, weights: _Floats, error_weights: _Floats, shifts: _Floats, shifted: bool
) -> QuadratureRule:
    """Scale the error weights to the root mean square error of a step at any position."""
    steps = np.linspace(0, 1, 2001)
    is_after = (positions + shifts[:, None]) > steps[:, None, None]
    error, estimate = is_after @ weights - (1 - steps)[:, None], is_after @ error_weights
    scale = np.sqrt(np.square(error).mean() / np.square(estimate).mean())
    return QuadratureRule(
        tuple(positions.tolist()), tuple(weights.tolist()), tuple((scale * error_weights).tolist()), shifted
    )


@dataclass
class LineIntegrals:
    """Attributions of some samples summed over lines: values, squares and errors, one tensor per part."""

    values: list[Tensor]
    squares: list[Tensor]
    errors: list[Tensor]
    missing: list[bool]

    @classmethod
    def zeros(cls, problem: Problem, rows: int) -> LineIntegrals:
        """Return sums of zero for this number of samples."""
        tensors = [[torch.zeros(rows, *p.shape, dtype=torch.float64) for p in problem.parts] for _ in range(3)]
        return cls(tensors[0], tensors[1], tensors[2], [True] * len(problem.parts))

    def add(self, rows: Tensor, other: LineIntegrals) -> None:
        """Add the sums of some of these samples."""
        addends = [*other.values, *other.squares, *other.errors]
        for total, added in zip([*self.values, *self.squares, *self.errors], addends, strict=True):
            total[rows] += added
        self.missing = [a and b for a, b in zip(self.missing, other.missing, strict=True)]

    def select(self, rows: Tensor) -> LineIntegrals:
        """Select samples."""
        selected = [[tensor[rows] for tensor in tensors] for tensors in (self.values, self.squares, self.errors)]
        return LineIntegrals(selected[0], selected[1], selected[2], self.missing)

    def add_lines(self, part_index: int, row: Tensor, value: Tensor, error: Tensor) -> None:
        """Add attributions along lines that end in the samples ``row``, which are sorted."""
        self.missing[part_index] = False
        first_row, count = int(row[0]), int(row[-1] - row[0]) + 1
        local_row = (row - first_row).to(value.device)
        for tensors, addends in ((self.values, value), (self.squares, value.square()), (self.errors, error)):
            row_sums = addends.new_zeros(count, *addends.shape[1:]).index_add_(0, local_row, addends)
            tensors[part_index][first_row : first_row + count] += row_sums.to("cpu", torch.float64)


def integrate_lines(problem: Problem, samples: Tensor, picks: Tensor, rule: QuadratureRule) -> LineIntegrals:
    """Sum over all lines from the background rows ``picks`` to the samples ``samples``."""
    sums = LineIntegrals.zeros(problem, len(samples))
    chunks = problem.chunk_runner()

    def work(start: int, stop: int) -> None:
        line = torch.arange(start, stop)
        row, pick = line // len(picks), line % len(picks)
        shifts = rule.shifts(pick) if rule.shifted else torch.zeros(1, dtype=torch.float64)
        for part_index, integral in enumerate(
            _integrate_chunk(problem, samples[row], picks[pick], rule, shifts, chunks.rows)
        ):
            if integral is not None:
                value, error = integral
                sums.add_lines(part_index, row, value, error.square() if rule.shifted else error)

    chunks.run(len(samples) * len(picks), work, rows_per_item=len(rule.positions))
    if rule.shifted:
        sums.errors = [squared.sqrt() for squared in sums.errors]
    return sums


def _integrate_chunk(
    problem: Problem, samples: Tensor, picks: Tensor, rule: QuadratureRule, shifts: Tensor, rows: int
) -> list[tuple[Tensor, Tensor] | None]:
    """Return the attribution along each line and its error, one pair per part; None if no gradient arrives."""
    samples, picks = samples.to(problem.device), picks.to(problem.device)
    starts = [part.background.index_select(0, picks) for part in problem.parts]  # type: ignore[union-attr]
    differences = [part.values.index_select(0, samples) - b for part, b in zip(problem.parts, starts, strict=True)]
    totals: list[Tensor | None] = [None] * len(differences)
    step = max(1, rows // len(samples))
    for first in range(0, len(rule.positions), step):
        t = torch.tensor(rule.positions[first : first + step], dtype=torch.float64)[:, None] + shifts
        w = torch.tensor(
            [values[first : first + step] for values in (rule.weights, rule.error_weights)], dtype=torch.float64
        )
        points = [
            torch.addcmul(b, _broadcast_positions(t, d), d).flatten(0, 1)
            for b, d in zip(starts, differences, strict=True)
        ]
        _, gradients = problem.gradients(points, samples.repeat(len(t)))
        for part_index, (gradient, difference) in enumerate(zip(gradients, differences, strict=True)):
            if gradient is not None:
                weighted = (w.to(gradient) @ gradient.reshape(len(t), -1)).reshape(2, *difference.shape)
                previous = totals[part_index]
                totals[part_index] = weighted if previous is None else previous + weighted
    parts_and_totals = zip(problem.parts, totals, differences, strict=True)
    return [
        None
        if pair is None
        else (part.sum_over_embedding(pair[0] * difference), part.sum_over_embedding(pair[1] * difference))
        for part, pair, difference in parts_and_totals
    ]


def _broadcast_positions(t: Tensor, difference: Tensor) -> Tensor:
    """Reshape the positions so that they broadcast over the axes of a sample."""
    return t.to(difference.device, difference.dtype)[(..., *[None] * (difference.dim() - 1))]


def start_scores(problem: Problem, samples: Tensor, picks: Tensor, shared: Tensor | None) -> Tensor:
    """Return the score at the start of each line, samples × picks; ``shared`` are outputs that serve all samples."""
    if shared is not None:
        transformed = problem.target_score.transform(shared)[picks.to(shared.device)]
        return transformed[:, problem.target_score.classes[samples]].T.to("cpu", torch.float64)
    values = torch.zeros(len(samples) * len(picks), dtype=torch.float64)

    def work(start: int, stop: int) -> None:
        line = torch.arange(start, stop)
        sample_indices, pick_rows = (
            samples[line // len(picks)].to(problem.device),
            picks[line % len(picks)].to(problem.device),
        )
        points = [part.background.index_select(0, pick_rows) for part in problem.parts]  # type: ignore[union-attr]
        with torch.no_grad():
            values[start:stop] = problem.scores_at(points, sample_indices).to("cpu", torch.float64)

    problem.chunk_runner().run(len(values), work)
    return values.reshape(len(samples), len(picks))
