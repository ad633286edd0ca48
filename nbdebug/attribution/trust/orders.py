"""What cells contribute when they go in random orders: Shapley values by sampling, a rival that needs no gradients.

Štrumbelj and Kononenko 2010, jmlr.org/papers/v11/strumbelj10a.html; each order is taken in both directions. Where many
parts say the same, taking out one alone (occlusion) changes nothing, and this still does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import Array
from nbdebug.attribution.trust.cells import Cells
from nbdebug.attribution.trust.curves import score, stand_in

LEAST, USUAL, MOST = 2, 16, 40  # pairs of orders
STEPS = 640  # up to which few cells have more pairs


@dataclass(frozen=True)
class Orders:
    """``values`` are samples × cells, ``halves`` those of every other pair, ``course`` the score, steps × samples."""

    values: Array
    halves: tuple[Array, Array]
    course: Array


def orders(problem: Problem, cells: Cells, seconds: float) -> Orders:
    """As many pairs of orders as there is time for, 2 to 40, each with a sample of the background that stands in."""
    random, begun = np.random.default_rng(0), time.perf_counter()
    others = [stand_in(part) for part in cells.parts]
    found: list[Array] = []
    ways: list[Array] = []
    most = max(USUAL, min(MOST, STEPS // cells.count))
    while len(found) < most and (len(found) < LEAST or time.perf_counter() - begun < seconds):
        order, row = random.permutation(cells.count), len(found)
        stands = [one[row % len(one)] for one in others]
        both = [falls(problem, cells, way, stands) for way in (order, order[::-1])]
        found.append(np.mean([values for values, _ in both], 0))
        ways += [course for _, course in both]
    return Orders(np.mean(found, 0), (np.mean(found[::2], 0), np.mean(found[1::2], 0)), np.mean(ways, 0))


def falls(problem: Problem, cells: Cells, order: Array, stands: list[torch.Tensor]) -> tuple[Array, Array]:
    """What the score loses with each cell, samples × cells, when they go in this order; and its course."""
    problem.parts = cells.parts
    ranks = torch.from_numpy(order.copy()).argsort()
    gone = (ranks < torch.arange(cells.count + 1)[:, None]).repeat_interleave(problem.size, 0)
    course = score(problem, cells, gone, stands).reshape(cells.count + 1, problem.size)
    values = np.zeros((problem.size, cells.count))
    values[:, order] = -np.diff(course, axis=0).T
    return values, course
