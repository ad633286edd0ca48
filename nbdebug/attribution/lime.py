"""LIME: a linear model of the score around one sample."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from nbdebug.attribution.flat import Floats
from nbdebug.attribution.found import Found
from nbdebug.attribution.parts import Part
from nbdebug.attribution.pieces import pieces_of
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.watch import expect
from nbdebug.exceptions import SetupError

WIDTH = 0.25  # of the kernel, by the cosine distance: that of the paper's own package for pictures and texts
LOW = 0.7  # R² under which the linear model does not describe the score
CHECKED = 0.25  # further perturbations, as a share, on which the linear model is tried


def lime(problem: Problem, samples: int = 1000, size: int | None = None) -> Found:
    """The coefficients of a weighted ridge regression of the score on which pieces of the sample are there.

    Pieces are features, tokens, and patches of pictures and series with sides of ``size`` (an eighth of the longest
    side), whose places all have the coefficient of the patch. What is taken away becomes the mean of the background;
    of whole numbers, that of one of its samples. ``samples`` are perturbations, drawn with a generator of its own. The
    note has R² on perturbations that were not fitted. Needs no gradients. Ribeiro et al. 2016, arXiv:1602.04938.
    """
    if not samples or samples < 10 or (size is not None and size < 1):
        raise SetupError(f"samples is {samples} and size {size}; expected 10 or more, and 1 or more. Leave them out.")
    pieces, count = pieces_of(problem.parts, size)
    expect(problem.size * (samples + math.ceil(samples * CHECKED)))
    values = [torch.zeros(part.values.shape, dtype=torch.float64) for part in problem.parts]
    fits = []
    for row in range(problem.size):
        random = np.random.default_rng(0)
        there = random.random((samples + math.ceil(samples * CHECKED), count)) < 0.5
        there[0] = True
        coefficients, fit = fitted(there, scores(problem, row, there, pieces, random), samples)
        fits.append(fit)
        for one, ids in zip(values, pieces, strict=True):
            one[row] = torch.from_numpy(coefficients)[ids]
    low, good = min(fits), min(fits) >= LOW
    found = Found(values, converged=good)
    found.notes.append(f"the linear model explains R² {low:.2f} of the score around the worst sample ({count} pieces)")
    if not good:
        found.notes.append(f"R² under {LOW} is low: the score is not linear there, and the coefficients say little")
    return found


def scores(
    problem: Problem, row: int, there: np.ndarray[tuple[int, int], np.dtype[np.bool_]], pieces: list[Tensor],
    random: np.random.Generator,
) -> Floats:  # fmt: skip
    """The explained number of a sample with some of its pieces."""
    found = np.zeros(len(there))
    others = [stand_ins(part, len(there), random) for part in problem.parts]

    def work(start: int, stop: int) -> None:
        mask = torch.from_numpy(there[start:stop])
        owners = torch.full((stop - start,), row, device=problem.home)
        points = [
            torch.where(mask[:, ids].to(problem.home), part.values[row], other[start:stop] if len(other) > 1 else other)
            for part, ids, other in zip(problem.parts, pieces, others, strict=True)
        ]
        with torch.no_grad():
            found[start:stop] = problem.values(points, owners).cpu().numpy()

    problem.chunks().over(len(there), work)
    return found


def stand_ins(part: Part, count: int, random: np.random.Generator) -> Tensor:
    """What stands where a piece is not there: one for all perturbations, or one each."""
    assert part.background is not None
    if part.values.is_floating_point():
        return part.background.mean(0, keepdim=True)
    picks = torch.from_numpy(random.integers(len(part.background), size=count))
    return part.background[picks.to(part.background.device)]


def fitted(there: np.ndarray[tuple[int, int], np.dtype[np.bool_]], score: Floats, samples: int) -> tuple[Floats, float]:
    """The coefficients, and R² on the perturbations after the first ``samples``."""
    from sklearn.linear_model import Ridge

    distance = 1 - np.sqrt(there.mean(1))
    weight = np.exp(-np.square(distance / WIDTH) / 2)
    linear = Ridge().fit(there[:samples], score[:samples], weight[:samples])
    rest = slice(samples, None)
    if not score[rest].std():
        return linear.coef_, 1.0
    return linear.coef_, float(linear.score(there[rest], score[rest], weight[rest]))
