"""Deletion and insertion: how fast the score goes when what counts goes first, and comes when that comes first.

Petsiuk et al. 2018, arXiv:1806.07421; here against the same in random order, without which an area says nothing. What
goes is exchanged for that of samples of the background, so that tokens stay tokens; patches for its mean.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nbdebug.attribution.occlusion import stand_ins
from nbdebug.attribution.parts import Part
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import Array
from nbdebug.attribution.trust.cells import Cells
from nbdebug.exceptions import SetupError

STEPS = 16
ROWS = 8  # background samples that stand in


def courses(problem: Problem, cells: Cells, values: Array) -> dict[str, Array]:
    """The score after each share of deletion and of insertion, steps × samples, in the order of ``values``."""
    flat = torch.from_numpy(values)
    return {
        "deletion": course(problem, cells, flat),
        "insertion": course(problem, cells, -flat)[::-1].copy(),
    }


def course(problem: Problem, cells: Cells, order: Tensor) -> Array:
    """The score as more and more of the cells, the highest in ``order`` first, is exchanged."""
    ranks = order.argsort(1, descending=True).argsort(1)
    counts = np.linspace(0, cells.count, min(STEPS, cells.count) + 1).round()
    problem.parts = cells.parts
    others = [stand_in(part) for part in cells.parts]
    rows = max(len(one) for one in others)
    gone = torch.cat([ranks < count for count in counts])
    found = [score(problem, cells, gone, [one[row % len(one)] for one in others]) for row in range(rows)]
    mean: Array = np.mean(found, 0)
    return mean.reshape(len(counts), problem.size)


def score(problem: Problem, cells: Cells, gone: Tensor, others: list[Tensor]) -> Array:
    """The score of each sample without some of its cells, in the order of ``gone``, steps × samples joined."""
    found = torch.zeros(len(gone), dtype=torch.float64)

    def work(start: int, stop: int) -> None:
        owners = torch.arange(start, stop, device=problem.home) % problem.size
        masks = cells.masks(gone[start:stop])
        points = [
            torch.where(mask, other, part.values.index_select(0, owners))
            for (part, mask), other in zip(masks, others, strict=True)
        ]
        with torch.no_grad():
            found[start:stop] = problem.values(points, owners).to("cpu", torch.float64)

    problem.chunks().over(len(gone), work)
    return found.numpy()


def stand_in(part: Part) -> Tensor:
    """What is put in the place of a part's numbers, one or more samples; zeros where there is no background."""
    if part.background is not None:
        return stand_ins(part)[:ROWS]
    if not part.values.is_floating_point():
        raise SetupError(f"{part.name} holds integers and there is no background; expected one. Pass background=.")
    return torch.zeros_like(part.values[:1])


def area(curve: Array) -> Array:
    """The mean height of each column of curves."""
    found: Array = ((curve[1:] + curve[:-1]) / 2).mean(0)
    return found
