"""Integrals of the gradient along straight lines from background samples to samples, by quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.problem import Problem

Floats = NDArray[np.float64]
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Rule:
    """Places in [0, 1], their weights, and weights that tell the error; for all lines, or shifted from line to line.

    Errors of shifted lines are independent, so that they add up as squares.
    """

    places: tuple[float, ...]
    weights: tuple[float, ...]
    told: tuple[float, ...]
    shifted: bool = False

    def shifts(self, lines: Tensor) -> Tensor:
        """How far the places of each line are moved: by multiples of the golden ratio, which fill [0, 1) evenly."""
        return ((lines.double() + 0.5) * GOLDEN).remainder(1) / len(self.places)


@cache
def gauss(count: int) -> Rule:
    """Gauss–Legendre quadrature, exact for polynomials of degree 2·count - 1.

    The error is told by the highest Legendre coefficient that so many places resolve: next to nothing for what is
    smooth; for a step, which is what a ReLU makes of a gradient, as large as the error where it may be anywhere.
    """
    places, weights = np.polynomial.legendre.leggauss(count)
    highest = weights / 2 * np.polynomial.legendre.Legendre.basis(count - 1)(places)
    places, weights = (places + 1) / 2, weights / 2
    return scaled(places, weights, highest, np.zeros(1), False)


@cache
def shifted(count: int) -> Rule:
    """Places at even distances, moved together by another part of the distance on each line.

    What one line misses the others make up for: with few places and many lines less is missed than by Gauss's. The
    error is told by how much neighbors differ. Cranley and Patterson 1976, doi:10.1137/0713071.
    """
    every, signs = np.arange(count) / count, np.resize([1.0, -1.0], count)
    return scaled(every, np.full(count, 1 / count), signs, (np.arange(50) + 0.5) / 50 / count, True)


def scaled(places: Floats, weights: Floats, told: Floats, shifts: Floats, shifted: bool) -> Rule:
    """The rule with ``told`` as large, in the mean square, as the error of a step anywhere."""
    steps = np.linspace(0, 1, 2001)
    after = (places + shifts[:, None]) > steps[:, None, None]
    error, said = after @ weights - (1 - steps)[:, None], after @ told
    scale = np.sqrt(np.square(error).mean() / np.square(said).mean())
    return Rule(tuple(places.tolist()), tuple(weights.tolist()), tuple((scale * told).tolist()), shifted)


@dataclass
class Sums:
    """Attributions of some samples, added over lines: themselves, their squares, their errors; one tensor a part."""

    first: list[Tensor]
    second: list[Tensor]
    error: list[Tensor]
    missing: list[bool]

    @classmethod
    def zeros(cls, problem: Problem, rows: int) -> Sums:
        """Nothing added yet."""
        several = [[torch.zeros(rows, *p.shape, dtype=torch.float64) for p in problem.parts] for _ in range(3)]
        return cls(several[0], several[1], several[2], [True] * len(problem.parts))

    def add(self, rows: Tensor, other: Sums) -> None:
        """Adds the sums of some of these samples."""
        theirs = [*other.first, *other.second, *other.error]
        for mine, one in zip([*self.first, *self.second, *self.error], theirs, strict=True):
            mine[rows] += one
        self.missing = [a and b for a, b in zip(self.missing, other.missing, strict=True)]

    def of(self, chosen: Tensor) -> Sums:
        """Those of some of the samples."""
        several = [[one[chosen] for one in kind] for kind in (self.first, self.second, self.error)]
        return Sums(several[0], several[1], several[2], self.missing)

    def add_lines(self, place: int, row: Tensor, value: Tensor, error: Tensor) -> None:
        """Adds attributions along lines that end in the samples ``row``, which are in order."""
        self.missing[place] = False
        low, count = int(row[0]), int(row[-1] - row[0]) + 1
        near = (row - low).to(value.device)
        for kind, lines in ((self.first, value), (self.second, value.square()), (self.error, error)):
            found = lines.new_zeros(count, *lines.shape[1:]).index_add_(0, near, lines)
            kind[place][low : low + count] += found.to("cpu", torch.float64)


def along(problem: Problem, samples: Tensor, picks: Tensor, rule: Rule) -> Sums:
    """The sums over all lines from the background rows ``picks`` to the samples ``samples``."""
    sums = Sums.zeros(problem, len(samples))
    chunks = problem.chunks()

    def work(start: int, stop: int) -> None:
        line = torch.arange(start, stop)
        row, pick = line // len(picks), line % len(picks)
        shifts = rule.shifts(pick) if rule.shifted else torch.zeros(1, dtype=torch.float64)
        for place, arrived in enumerate(integrals(problem, samples[row], picks[pick], rule, shifts, chunks.rows)):
            if arrived is not None:
                value, error = arrived
                sums.add_lines(place, row, value, error.square() if rule.shifted else error)

    chunks.over(len(samples) * len(picks), work, each=len(rule.places))
    if rule.shifted:
        sums.error = [one.sqrt() for one in sums.error]
    return sums


def integrals(
    problem: Problem, samples: Tensor, picks: Tensor, rule: Rule, shifts: Tensor, rows: int
) -> list[tuple[Tensor, Tensor] | None]:
    """The attribution along each line and its error, a pair a part; None where no gradient arrives."""
    samples, picks = samples.to(problem.home), picks.to(problem.home)
    begins = [part.background.index_select(0, picks) for part in problem.parts]  # type: ignore[union-attr]
    ways = [part.values.index_select(0, samples) - b for part, b in zip(problem.parts, begins, strict=True)]
    totals: list[Tensor | None] = [None] * len(ways)
    step = max(1, rows // len(samples))
    for first in range(0, len(rule.places), step):
        t = torch.tensor(rule.places[first : first + step], dtype=torch.float64)[:, None] + shifts
        w = torch.tensor([one[first : first + step] for one in (rule.weights, rule.told)], dtype=torch.float64)
        points = [torch.addcmul(b, spread(t, d), d).flatten(0, 1) for b, d in zip(begins, ways, strict=True)]
        _, found = problem.gradients(points, samples.repeat(len(t)))
        for place, (gradient, way) in enumerate(zip(found, ways, strict=True)):
            if gradient is not None:
                means = (w.to(gradient) @ gradient.reshape(len(t), -1)).reshape(2, *way.shape)
                before = totals[place]
                totals[place] = means if before is None else before + means
    together = zip(problem.parts, totals, ways, strict=True)
    return [None if both is None else (part.folded(both[0] * way), part.folded(both[1] * way))
            for part, both, way in together]  # fmt: skip


def spread(t: Tensor, way: Tensor) -> Tensor:
    """The places, one row for all lines or for each, as axes before those of a sample."""
    return t.to(way.device, way.dtype)[(..., *[None] * (way.dim() - 1))]


def ends(problem: Problem, samples: Tensor, picks: Tensor, shared: Tensor | None) -> Tensor:
    """The explained number where each line begins, samples × picks; ``shared`` are outputs that serve all samples."""
    if shared is not None:
        found = problem.scored.change(shared)[picks.to(shared.device)]
        return found[:, problem.scored.classes[samples]].T.to("cpu", torch.float64)
    values = torch.zeros(len(samples) * len(picks), dtype=torch.float64)

    def work(start: int, stop: int) -> None:
        line = torch.arange(start, stop)
        owners, chosen = samples[line // len(picks)].to(problem.home), picks[line % len(picks)].to(problem.home)
        points = [part.background.index_select(0, chosen) for part in problem.parts]  # type: ignore[union-attr]
        with torch.no_grad():
            values[start:stop] = problem.values(points, owners).to("cpu", torch.float64)

    problem.chunks().over(len(values), work)
    return values.reshape(len(samples), len(picks))
