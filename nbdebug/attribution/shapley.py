"""Shapley values of any model, from random orders of its features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution.flat import Floats, by_part, finished, flattened, score_of
from nbdebug.attribution.found import Found
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.watch import expect
from nbdebug.exceptions import SetupError

MOST = 100  # background samples that are taken


def shapley(problem: Problem, passes: int = 2, error: float = 0.05) -> Found:
    """What each feature adds when the features of a sample replace those of a background sample one after another.

    Every background sample gets an order and its reverse in each pass; after ``passes`` the number is doubled, up to
    eight times, until the standard error is under ``error``. Needs no gradients; exact for additive models.
    Mitchell et al. 2022, arXiv:2104.12199, section 4.1 (antithetic sampling).
    """
    if passes < 2:
        raise SetupError(f"passes is {passes}; expected 2 or more, whose difference is the error. Pass 2.")
    inputs, rows = flattened(problem)
    random = np.random.default_rng(0)
    rows = rows[np.sort(random.permutation(len(rows))[:MOST])]
    values, errors, base = np.zeros_like(inputs), np.zeros_like(inputs), np.zeros(len(inputs))
    for number, row in enumerate(inputs):
        score = score_of(problem, number)
        base[number] = score(rows).mean()
        left = 2 * len(rows) * (len(row) + 1) * (len(inputs) - number)
        values[number], errors[number] = walked(score, rows, row, passes, error, random, left)
    found = finished(problem, values, torch.from_numpy(base))
    found.standard_errors, found.lines = by_part(problem, errors), len(rows)
    worst = float((np.linalg.norm(errors, axis=1) / np.maximum(np.linalg.norm(values, axis=1), 1e-12)).max())
    if worst > error:
        found.converged = False
        found.notes.append(f"the standard error is {worst:.1%} in the worst sample; pass more passes=")
    return found


def walked(
    score: Callable[[Floats], Floats],
    rows: Floats,
    row: Floats,
    passes: int,
    error: float,
    random: np.random.Generator,
    left: int,
) -> tuple[Floats, Floats]:
    """Mean and standard error of what each feature adds; ``left`` are the rows of a pass of all samples to come."""
    found: list[Floats] = []
    while True:
        expect(left * (passes if not found else len(found)))
        for _ in range(passes if not found else len(found)):
            found.append(np.stack([pair(score, begin, row, random.permutation(len(row))) for begin in rows]))
        every = np.stack(found)
        mean = every.mean((0, 1))
        # All of the background is in each pass: only the orders are drawn.
        deviation = np.sqrt(every.var(0, ddof=1).sum(0) / len(every)) / len(rows)
        if np.linalg.norm(deviation) <= error * np.linalg.norm(mean) or len(found) >= 8 * passes:
            return mean, deviation


def pair(score: Callable[[Floats], Floats], begin: Floats, row: Floats, order: NDArray[np.int64]) -> Floats:
    """What each feature adds in one order and in its reverse, on average."""
    steps = np.argsort(order)
    walk = np.arange(len(row) + 1)[:, None]
    there, back = steps < walk, (len(row) - 1 - steps) < walk
    scores = score(np.where(np.concatenate([there, back]), row, begin)).reshape(2, -1)
    gains = np.diff(scores, axis=1)
    return np.asarray((gains[0][steps] + gains[1][len(row) - 1 - steps]) / 2)
