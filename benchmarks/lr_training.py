"""What a problem comes to at a rate, and at each rate of a grid: the measure of every suggestion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from lr_problems import Descent, Problem
from torch import Tensor, nn

SEEDS = 5
LAST, LOOKS = 5, 10
WORST = 100.0  # times the best loss: what is worse, or not finite, counts as that
# How many seeds see the rates whose loss is so many times the best one, and their neighbors.
ROUNDS = ((3, 1.3), (SEEDS, 1.12))


def batches(problem: Problem, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of a fresh shuffle each time the data is through, without an end."""
    data, source = problem.data(), torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(data.x), generator=source)
        for start in range(0, len(order) - problem.batch + 1, problem.batch):
            chosen = order[start : start + problem.batch]
            yield data.x[chosen], data.y[chosen]


def trained(problem: Problem, descent: Descent, rate: float, seed: int) -> float:
    """The loss on held-out data in the last fifth of the steps; infinity where the training loss stops being finite.

    At a constant rate the loss of a single step is chance to a part: so it is the mean of ten looks.
    """
    torch.manual_seed(seed)
    model = problem.model()
    optimizer, looks = descent.make(model.parameters(), lr=rate), []
    every = problem.steps // (LAST * LOOKS)
    for step, (x, y) in zip(range(problem.steps, 0, -1), batches(problem, seed), strict=False):
        optimizer.zero_grad()
        loss = problem.loss_fn(model(x), y)
        if not isfinite(loss.item()):
            return inf
        loss.backward()
        optimizer.step()
        if (step - 1) % every == 0 and step <= LOOKS * every:
            looks.append(held_out(problem, model))
    found = mean(looks)
    return found if isfinite(found) else inf


@torch.no_grad()
def held_out(problem: Problem, model: nn.Module) -> float:
    """The loss on data that are not learned from."""
    model.eval()
    data = problem.data()
    loss = problem.loss_fn(model(data.test_x), data.test_y).item()
    model.train()
    return loss


@dataclass(frozen=True)
class Grid:
    """The loss that each rate trains to, by seed: all seeds where it may be the best, fewer elsewhere."""

    losses: dict[float, list[float]]

    @property
    def best(self) -> float:
        """The rate with the lowest mean loss, of those that all seeds have seen."""
        most = max(map(len, self.losses.values()))
        return min((rate for rate in self.losses if len(self.losses[rate]) == most), key=lambda r: mean(self.losses[r]))

    def ratio(self, rate: float) -> float:
        """What a rate trains to over what the best one does, in the mean; between two rates on a straight line."""
        rates, best = sorted(self.losses), mean(self.losses[self.best])
        means = [min(mean(self.losses[one]), WORST * best) for one in rates]
        return float(np.interp(np.log(rate), np.log(rates), means)) / best

    @property
    def useful(self) -> tuple[float, float]:
        """The lowest and the highest of the neighboring rates around the best whose mean is within 10 % of its."""
        rates, bound = sorted(self.losses), 1.1 * mean(self.losses[self.best])
        low = high = rates.index(self.best)
        while low and mean(self.losses[rates[low - 1]]) <= bound:
            low -= 1
        while high + 1 < len(rates) and mean(self.losses[rates[high + 1]]) <= bound:
            high += 1
        return rates[low], rates[high]


def grid(problem: Problem, descent: Descent, seeds: int = SEEDS) -> Grid:
    """Trains at one rate an octave with one seed, then at all rates beside hopeful ones, with more and more seeds."""
    losses = {rate: [trained(problem, descent, rate, 0)] for rate in descent.rates[::2]}
    for count, near in ROUNDS:
        bound = near * min(map(mean, losses.values()))
        hopeful = {rate for rate, found in losses.items() if mean(found) <= bound}
        for rate in descent.rates:
            if any(2**-0.6 < rate / one < 2**0.6 for one in hopeful):
                found = losses.setdefault(rate, [])
                found += [trained(problem, descent, rate, seed) for seed in range(len(found), min(count, seeds))]
    return Grid({rate: losses[rate] for rate in descent.rates if rate in losses})


def kept_grid(problem: Problem, descent: Descent, path: Path, seeds: int = SEEDS, anew: bool = False) -> Grid:
    """The grid as it is kept at ``path``; trained and kept there where it is missing, or ``anew``."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    name = f"{problem.name}, {descent.name}"
    if anew or name not in kept:
        found = grid(problem, descent, seeds)
        kept[name] = {f"{rate:.9g}": [float(f"{loss:.5g}") for loss in found.losses[rate]] for rate in found.losses}
        lines = (f"  {json.dumps(one)}: {json.dumps(kept[one])}" for one in kept)
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return Grid({float(rate): found for rate, found in kept[name].items()})
