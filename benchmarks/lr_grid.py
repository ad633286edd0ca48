"""Test losses after training at each learning rate of a grid, which are the reference for all suggestions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite, log10
from pathlib import Path
from statistics import mean
from typing import Literal

import numpy as np
import torch
from lr_problems import OptimizerGrid, Problem
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR

Schedule = Literal["constant", "one-cycle"]
SCHEDULES: tuple[Schedule, ...] = ("constant", "one-cycle")
SEEDS = 5
FINAL_SHARE, EVALUATIONS = 5, 10  # the last fifth of the steps has ten evaluations
MAX_RATIO = 100.0  # losses above this multiple of the best loss, and non-finite ones, count as this multiple
USEFUL_FACTOR = 1.1
# Number of seeds for rates with a loss below this multiple of the best loss, and for their neighbors.
REFINEMENTS = ((3, 1.3), (SEEDS, 1.12))
COARSE_SEEDS, COARSE_FACTOR = 3, 1.12


def iterate_batches(problem: Problem, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches without end, shuffled again in each epoch."""
    data, generator = problem.data(), torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(data.x), generator=generator)
        for start in range(0, len(order) - problem.batch_size + 1, problem.batch_size):
            rows = order[start : start + problem.batch_size]
            yield data.x[rows], data.y[rows]


def train_at_rate(
    problem: Problem, optimizer_grid: OptimizerGrid, rate: float, seed: int, schedule: Schedule = "constant"
) -> float:
    """Return the mean test loss in the last fifth of the steps; infinity if the training loss becomes non-finite.

    At a constant rate the loss fluctuates between steps, so it is the mean of ten evaluations. With one-cycle, whose
    peak is the rate, it is the loss after the last step.
    """
    torch.manual_seed(seed)
    model = problem.model()
    optimizer = optimizer_grid.create(model.parameters(), lr=rate)
    scheduler = OneCycleLR(optimizer, rate, problem.steps) if schedule == "one-cycle" else None
    losses, interval = [], problem.steps // (FINAL_SHARE * EVALUATIONS)
    evaluations = EVALUATIONS if scheduler is None else 1
    for remaining, (x, y) in zip(range(problem.steps, 0, -1), iterate_batches(problem, seed), strict=False):
        optimizer.zero_grad()
        loss = problem.loss_fn(model(x), y)
        if not isfinite(loss.item()):
            return inf
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        if (remaining - 1) % interval == 0 and remaining <= evaluations * interval:
            losses.append(compute_test_loss(problem, model))
    return mean(losses) if isfinite(mean(losses)) else inf


@torch.no_grad()
def compute_test_loss(problem: Problem, model: nn.Module) -> float:
    """Return the loss on the test samples."""
    model.eval()
    data = problem.data()
    loss = problem.loss_fn(model(data.test_x), data.test_y).item()
    model.train()
    return loss


@dataclass(frozen=True)
class LossGrid:
    """The test losses of each learning rate by seed; rates far from the best one have fewer seeds."""

    losses: dict[float, list[float]]

    @property
    def best_rate(self) -> float:
        """The rate with the lowest mean loss, of those with all seeds."""
        seeds = max(map(len, self.losses.values()))
        rates = [rate for rate in self.losses if len(self.losses[rate]) == seeds]
        return min(rates, key=lambda rate: mean(self.losses[rate]))

    @property
    def best_loss(self) -> float:
        """The mean loss of the best rate."""
        return mean(self.losses[self.best_rate])

    def loss_ratio(self, rate: float) -> float:
        """Return the mean loss of a rate over the best one, interpolated linearly in the logarithm of the rate."""
        rates, best_loss = sorted(self.losses), self.best_loss
        means = [min(mean(self.losses[grid_rate]), MAX_RATIO * best_loss) for grid_rate in rates]
        return float(np.interp(np.log(rate), np.log(rates), means)) / best_loss

    @property
    def useful_range(self) -> tuple[float, float]:
        """The lowest and highest of the neighboring rates with a mean loss within 10% of the best one."""
        rates, bound = sorted(self.losses), USEFUL_FACTOR * self.best_loss
        low = high = rates.index(self.best_rate)
        while low and mean(self.losses[rates[low - 1]]) <= bound:
            low -= 1
        while high + 1 < len(rates) and mean(self.losses[rates[high + 1]]) <= bound:
            high += 1
        return rates[low], rates[high]


def train_grid(problem: Problem, optimizer_grid: OptimizerGrid, seeds: int = SEEDS) -> LossGrid:
    """Train at one rate per octave with one seed, then at all rates near promising ones with more seeds."""
    losses = {rate: [train_at_rate(problem, optimizer_grid, rate, 0)] for rate in optimizer_grid.rates[::2]}
    for seed_count, factor in REFINEMENTS:
        bound = factor * min(map(mean, losses.values()))
        promising = {rate for rate, rate_losses in losses.items() if mean(rate_losses) <= bound}
        for rate in optimizer_grid.rates:
            if any(2**-0.6 < rate / neighbor < 2**0.6 for neighbor in promising):
                rate_losses = losses.setdefault(rate, [])
                new_seeds = range(len(rate_losses), min(seed_count, seeds))
                rate_losses += [train_at_rate(problem, optimizer_grid, rate, seed) for seed in new_seeds]
    return LossGrid({rate: losses[rate] for rate in optimizer_grid.rates if rate in losses})


def train_coarse_grid(problem: Problem, optimizer_grid: OptimizerGrid, schedule: Schedule) -> LossGrid:
    """Train at two rates per decade with one seed, at promising ones with three seeds, and at four near the best."""
    low, high = (log10(2) * exponent for exponent in (optimizer_grid.min_exponent, optimizer_grid.max_exponent))
    exponents = [i / 2 for i in range(round(2 * low), round(2 * high) + 1)]
    losses = {exponent: [train_at_rate(problem, optimizer_grid, 10**exponent, 0, schedule)] for exponent in exponents}
    bound = COARSE_FACTOR * min(map(mean, losses.values()))
    promising = [exponent for exponent in exponents if mean(losses[exponent]) <= bound]
    refined = {exponent for exponent in exponents if any(abs(exponent - other) <= 0.5 for other in promising)}
    best = min(exponents, key=lambda exponent: mean(losses[exponent]))
    for exponent in sorted(refined | {best - 0.25, best + 0.25}):
        done = losses.setdefault(exponent, [])
        new_seeds = range(len(done), COARSE_SEEDS)
        done += [train_at_rate(problem, optimizer_grid, 10**exponent, seed, schedule) for seed in new_seeds]
    return LossGrid({10**exponent: losses[exponent] for exponent in sorted(losses)})


def load_or_train_grid(
    problem: Problem,
    optimizer_grid: OptimizerGrid,
    path: Path,
    seeds: int = SEEDS,
    retrain: bool = False,
    schedule: Schedule | None = None,
) -> LossGrid:
    """Return the grid that is stored in a JSON file; train and store it if it is missing or ``retrain`` is set.

    With a ``schedule`` the grid is a coarse one.
    """
    stored = json.loads(path.read_text()) if path.exists() else {}
    name = ", ".join(filter(None, (problem.name, optimizer_grid.name, schedule)))
    if retrain or name not in stored:
        grid = (
            train_coarse_grid(problem, optimizer_grid, schedule)
            if schedule is not None
            else train_grid(problem, optimizer_grid, seeds)
        )
        losses = grid.losses
        stored[name] = {f"{rate:.9g}": [float(f"{loss:.5g}") for loss in losses[rate]] for rate in losses}
        lines = (f"  {json.dumps(key)}: {json.dumps(grid)}" for key, grid in stored.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return LossGrid({float(rate): losses for rate, losses in stored[name].items()})
