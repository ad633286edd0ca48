"""Integrals of the gradient along straight lines from background samples to samples, by Gauss–Legendre quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from nbdebug.explain.problem import Problem


@cache
def nodes_of(count: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Places in [0, 1] and their weights; exact for polynomials of degree 2·count - 1."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return tuple(((places + 1) / 2).tolist()), tuple((weights / 2).tolist())


@dataclass
class Sums:
    """Attributions of some samples, added over lines: themselves and their squares, one tensor a part."""

    first: list[Tensor]
    second: list[Tensor]
    missing: list[bool]

    @classmethod
    def zeros(cls, problem: Problem, rows: int) -> Sums:
        """Nothing added yet."""
        empty = [torch.zeros(rows, *p.shape, dtype=torch.float64) for p in problem.parts]
        return cls(empty, [one.clone() for one in empty], [True] * len(empty))

    def add(self, rows: Tensor, other: Sums) -> None:
        """Adds the sums of some of these samples."""
        for mine, theirs in zip(self.first + self.second, other.first + other.second, strict=True):
            mine[rows] += theirs
        self.missing = [a and b for a, b in zip(self.missing, other.missing, strict=True)]


def along(problem: Problem, samples: Tensor, picks: Tensor, nodes: int) -> Sums:
    """The sums over all lines from the background rows ``picks`` to the samples ``samples``, at so many nodes each."""
    sums = Sums.zeros(problem, len(samples))
    chunks = problem.chunks()

    def work(start: int, stop: int) -> None:
        line = torch.arange(start, stop)
        row = line // len(picks)
        for place, arrived in enumerate(integrals(problem, samples[row], picks[line % len(picks)], nodes, chunks.rows)):
            if arrived is None:
                continue
            sums.missing[place] = False
            found = arrived.to("cpu", torch.float64)
            sums.first[place].index_add_(0, row, found)
            sums.second[place].index_add_(0, row, found.square())

    chunks.over(len(samples) * len(picks), work, each=nodes)
    return sums


def integrals(problem: Problem, samples: Tensor, picks: Tensor, nodes: int, rows: int) -> list[Tensor | None]:
    """The attribution along each line, one tensor a part; None where no gradient arrives."""
    places, weights = nodes_of(nodes)
    samples, picks = samples.to(problem.home), picks.to(problem.home)
    begins = [part.background.index_select(0, picks) for part in problem.parts]  # type: ignore[union-attr]
    ways = [part.values.index_select(0, samples) - b for part, b in zip(problem.parts, begins, strict=True)]
    totals: list[Tensor | None] = [None] * len(ways)
    step = max(1, rows // len(samples))
    for first in range(0, nodes, step):
        t, w = (torch.tensor(one[first : first + step], dtype=torch.float64) for one in (places, weights))
        points = [torch.addcmul(b.unsqueeze(1), spread(t, d), d.unsqueeze(1)).flatten(0, 1)
                  for b, d in zip(begins, ways, strict=True)]  # fmt: skip
        _, found = problem.gradients(points, samples.repeat_interleave(len(t)))
        for place, (gradient, way) in enumerate(zip(found, ways, strict=True)):
            if gradient is not None:
                mean = torch.einsum("pk...,k->p...", gradient.unflatten(0, (len(way), len(t))), w.to(gradient))
                before = totals[place]
                totals[place] = mean if before is None else before + mean
    together = zip(problem.parts, totals, ways, strict=True)
    return [None if total is None else part.folded(total * way) for part, total, way in together]


def spread(t: Tensor, way: Tensor) -> Tensor:
    """The places as an axis after that of the lines."""
    return t.to(way.device, way.dtype).reshape(1, -1, *[1] * (way.dim() - 1))


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
