"""A problem as tables, for explainers of black boxes: all inputs side by side, one score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution.found import Found
from nbdebug.attribution.problem import Problem

Floats = NDArray[np.float64]


def score_of(problem: Problem, number: int) -> Callable[[Floats], Floats]:
    """The explained number of one sample as a function of a table."""

    def function(rows: Floats) -> Floats:
        found = np.zeros(len(rows))

        def work(start: int, stop: int) -> None:
            owners = torch.full((stop - start,), number, device=problem.home)
            with torch.no_grad():
                found[start:stop] = problem.values(split(problem, rows[start:stop]), owners).cpu().numpy()

        problem.chunks().over(len(rows), work)
        return found

    return function


def flattened(problem: Problem) -> tuple[Floats, Floats]:
    """All inputs of the samples and of the background as tables."""
    parts = problem.parts
    return joined([part.values for part in parts]), joined([p.background for p in parts if p.background is not None])


def joined(tensors: list[torch.Tensor]) -> Floats:
    """Tensors side by side."""
    return np.concatenate([one.reshape(len(one), -1).cpu().double().numpy() for one in tensors], 1)


def split(problem: Problem, rows: Floats) -> list[torch.Tensor]:
    """The parts in a table, of their shapes and dtypes."""
    found, start = [], 0
    for part in problem.parts:
        stop = start + part.values[0].numel()
        one = torch.from_numpy(rows[:, start:stop]).reshape(len(rows), *part.values.shape[1:])
        found.append(one.to(problem.home, part.values.dtype))
        start = stop
    return found


def finished(problem: Problem, values: Floats, base: torch.Tensor) -> Found:
    """Attributions of parts, with what they miss of the score as a share of the distance to the background."""
    gap = problem.scores - base
    error = (torch.from_numpy(values).sum(1) - gap).abs() / gap.abs().clamp_min(float(gap.abs().median()) or 1e-9)
    return Found(by_part(problem, values), base, error, converged=bool((error <= 0.01).all()))


def by_part(problem: Problem, values: Floats) -> list[torch.Tensor]:
    """Numbers in a table as those of each part, float64, whatever the part itself holds."""
    sizes = [part.values[0].numel() for part in problem.parts]
    pieces = torch.split(torch.from_numpy(values), sizes, 1)
    return [one.reshape(len(one), *part.values.shape[1:]) for one, part in zip(pieces, problem.parts, strict=True)]
