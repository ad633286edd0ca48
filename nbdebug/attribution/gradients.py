"""Methods that look at the gradient in a sample, or along one line from a baseline."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from nbdebug.attribution.bounds import USUAL, Bounds
from nbdebug.attribution.cuts import refuse_missing
from nbdebug.attribution.expected import expected_gradients
from nbdebug.attribution.found import Found, refuse_nan
from nbdebug.attribution.problem import Problem


def saliency(problem: Problem) -> Found:
    """The size of the gradient by each number: how steep the score is here, not what made it what it is.

    Simonyan et al. 2013, arXiv:1312.6034.
    """
    found = zip(here(problem), problem.parts, strict=True)
    return Found([one.abs() if part.call is None else one.norm(dim=-1) for one, part in found])


def input_x_gradient(problem: Problem) -> Found:
    """Gradient times input: for a linear score its terms. Shrikumar et al. 2016, arXiv:1605.01713."""
    products = zip(here(problem), problem.parts, strict=True)
    return Found([part.folded(gradient * part.values.to("cpu", torch.float64)) for gradient, part in products])


def here(problem: Problem) -> list[Tensor]:
    """The gradient of each sample's score by each part."""
    found = [torch.zeros(one.values.shape, dtype=torch.float64) for one in problem.parts]

    def work(start: int, stop: int) -> None:
        owners = torch.arange(start, stop, device=problem.home)
        _, gradients = problem.gradients([part.values[owners] for part in problem.parts], owners)
        refuse_missing(problem, [one is None for one in gradients])
        for mine, one in zip(found, gradients, strict=True):
            if one is not None:
                mine[start:stop] = one.to("cpu", torch.float64)

    problem.chunks().over(problem.size, work)
    refuse_nan(problem, found)
    return found


def integrated_gradients(problem: Problem, bounds: Bounds = USUAL) -> Found:
    """The gradient along the line from the mean of the background: one baseline, that need not look like a sample.

    Sundararajan et al. 2017, arXiv:1703.01365.
    """
    parts = problem.parts
    means = [None if p.background is None else p.background.mean(0, keepdim=True) for p in parts]
    several = any(p.background is not None and len(p.background) > 1 for p in parts)
    try:
        problem.parts = [replace(part, background=mean) for part, mean in zip(parts, means, strict=True)]
        # The score of a mean is no mean of scores: it is asked for at the ends of the lines.
        found = expected_gradients(
            problem, replace(bounds, nodes=max(bounds.nodes, 32), most=max(bounds.most or 0, 512))
        )
    finally:
        problem.parts = parts
    baseline = "the mean of the background" if several else "the one sample of the background"
    found.notes = [one for one in found.notes if not one.startswith("the background is one")]
    found.notes.append(f"the baseline is {baseline}")
    return found
