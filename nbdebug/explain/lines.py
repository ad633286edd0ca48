"""Integrals of the gradient along straight lines from background samples to samples, by Gauss–Legendre quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from nbdebug.explain.problem import Problem


@cache
def nodes_of(count: int) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Places in [0, 1], their weights, and weights that tell the error.

    The first are exact for polynomials of degree 2·count - 1. The last give the highest Legendre coefficient that so
    many places resolve: next to nothing for what is smooth, and for a step, which is what a ReLU makes of a gradient,
    scaled so that it is as large as the error where the step may be anywhere.
    """
    places, weights = np.polynomial.legendre.leggauss(count)
    highest = weights / 2 * np.polynomial.legendre.Legendre.basis(count - 1)(places)
    places, weights = (places + 1) / 2, weights / 2
    steps = np.linspace(0, 1, 2001)
    after = places > steps[:, None]
    error, told = after @ weights - (1 - steps), after @ highest
    scale = float(np.sqrt(np.square(error).mean() / np.square(told).mean()))
    return tuple(places.tolist()), tuple(weights.tolist()), tuple((scale * highest).tolist())


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


def along(problem: Problem, samples: Tensor, picks: Tensor, nodes: int) -> Sums:
    """The sums over all lines from the background rows ``picks`` to the samples ``samples``, at so many nodes each."""
    sums = Sums.zeros(problem, len(samples))
    chunks = problem.chunks()

    def work(start: int, stop: int) -> None:
        line = torch.arange(start, stop)
        row = line // len(picks)
        found = integrals(problem, samples[row], picks[line % len(picks)], nodes, chunks.rows)
        for place, arrived in enumerate(found):
            if arrived is not None:
                sums.add_lines(place, row, *arrived)

    chunks.over(len(samples) * len(picks), work, each=nodes)
    return sums


def integrals(
    problem: Problem, samples: Tensor, picks: Tensor, nodes: int, rows: int
) -> list[tuple[Tensor, Tensor] | None]:
    """The attribution along each line and its error, a pair a part; None where no gradient arrives."""
    places, *weights = nodes_of(nodes)
    samples, picks = samples.to(problem.home), picks.to(problem.home)
    begins = [part.background.index_select(0, picks) for part in problem.parts]  # type: ignore[union-attr]
    ways = [part.values.index_select(0, samples) - b for part, b in zip(problem.parts, begins, strict=True)]
    totals: list[Tensor | None] = [None] * len(ways)
    step = max(1, rows // len(samples))
    for first in range(0, nodes, step):
        t = torch.tensor(places[first : first + step], dtype=torch.float64)
        w = torch.tensor([one[first : first + step] for one in weights], dtype=torch.float64)
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
    """The places as an axis before that of the lines."""
    return t.to(way.device, way.dtype).reshape(-1, *[1] * way.dim())


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
