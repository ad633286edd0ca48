"""Deletion and insertion: how fast the score goes when what counts goes first, and comes when that comes first.

Petsiuk et al. 2018, arXiv:1806.07421; here against the same in random order, without which an area says nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nbdebug.explain.problem import Problem
from nbdebug.explain.result import Array

STEPS = 16
ORDERS = 3  # random ones


def curves(problem: Problem, values: Array) -> dict[str, Array]:
    """The score, mean over samples, after each share of deletion and insertion, by ``values`` and in random order.

    From 1, the score of the sample, to 0, that of the mean of the background, in each sample where they differ.
    """
    flat = torch.from_numpy(values)
    random = torch.Generator().manual_seed(0)
    shuffled = [torch.rand(flat.shape, generator=random, dtype=torch.float64) for _ in range(ORDERS)]
    return {
        "share": np.linspace(0, 1, STEPS + 1),
        "deletion": course(problem, flat),
        "insertion": course(problem, -flat)[::-1].copy(),
        "random": np.mean([course(problem, one) for one in shuffled], 0),
    }


def course(problem: Problem, order: Tensor) -> Array:
    """The score as more and more of the inputs, the highest in ``order`` first, is exchanged."""
    everyone = torch.arange(problem.size, device=problem.home)
    ranks = order.argsort(1, descending=True).argsort(1)
    counts = np.linspace(0, order.shape[1], STEPS + 1).round()
    scores = [score(problem, ranks < count, everyone) for count in counts]
    found = torch.stack(scores)
    span = found[0] - found[-1]
    clear = span.abs() > 1e-3 * span.abs().max().clamp_min(1e-12)
    return ((found - found[-1]) / span)[:, clear].median(1).values.numpy()


def score(problem: Problem, gone: Tensor, owners: Tensor) -> Tensor:
    """The score of each sample without some of its numbers."""
    found = torch.zeros(len(owners), dtype=torch.float64)

    def work(start: int, stop: int) -> None:
        points, column = [], 0
        for part in problem.parts:
            values, numbers = part.values[start:stop], int(np.prod(part.shape))
            mask = gone[start:stop, column : column + numbers].reshape(-1, *part.shape).to(values.device)
            other = part.background.mean(0) if part.background is not None else torch.zeros_like(values[0])
            points.append(torch.where(mask if part.call is None else mask.unsqueeze(-1), other, values))
            column += numbers
        with torch.no_grad():
            found[start:stop] = problem.values(points, owners[start:stop]).to("cpu", torch.float64)

    problem.chunks().over(len(owners), work)
    return found


def area(curve: Array) -> float:
    """The mean height of a curve."""
    return float(((curve[1:] + curve[:-1]) / 2).mean())
