"""Cost of learning rate sweeps, relative to the same number of bare training steps.

The highest rate is so low that every sweep takes all its steps. The time includes the analysis of the curve;
torch-lr-finder also draws it, since it suggests a rate only with a figure. A confirmation run of nbdebug is measured
separately. Times are CPU times of the process. A ratio is that of the sums over all rounds, with the lowest and the
highest ratio of a round.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial

import torch
from lr_finders import CONFIRMATION_RUN, NBDEBUG_CONFIRM, Finder, Trial
from lr_problems import CROSS_ENTROPY, Data, OptimizerGrid, Problem, normalized_cnn, sgd_with_momentum
from models import mlp
from timing import Task, cpu_seconds

MAX_RATE = 1e-4


def random_data(*shape: int) -> Data:
    """Return random inputs with random labels."""
    x, y = torch.randn(*shape), torch.randint(0, 10, shape[:1])
    return Data(x, y, x, y)


def create_problems() -> tuple[Problem, ...]:
    """Return problems with two models of common sizes."""
    rows, images = random_data(12_800, 784), random_data(3_200, 1, 14, 14)
    return (
        Problem("mlp, 784-512-512-10", lambda: rows, mlp, CROSS_ENTROPY, 128),
        Problem("cnn with batch normalization", lambda: images, partial(normalized_cnn, 16), CROSS_ENTROPY, 64),
    )


def train(trial: Trial, steps: int) -> None:
    """Train in a plain loop."""
    optimizer, step = trial.create_optimizer(MAX_RATE), 0
    while step < steps:
        for x, y in trial.loader:
            optimizer.zero_grad()
            loss = trial.problem.loss_fn(trial.model(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
            step += 1
            if step == steps:
                break


def collect_and_time(task: Task) -> float:
    """Return the CPU seconds of one call, after a garbage collection."""
    gc.collect()
    return cpu_seconds(task)


def measure_cost(finder: Finder, problem: Problem, rounds: int) -> str:
    """Return the ratio of the CPU times of a tool and of the bare loop, which runs before and after the tool."""
    trial = Trial.create(problem, OptimizerGrid("SGD", sgd_with_momentum, 0, 0), 0)
    steps = finder.suggest(trial, end=MAX_RATE).steps
    tool_seconds, bare_seconds = [], []
    for _ in range(rounds):
        before = collect_and_time(lambda: train(trial, steps))
        tool_seconds.append(collect_and_time(lambda: finder.suggest(trial, end=MAX_RATE)))
        after = collect_and_time(lambda: train(trial, steps))
        bare_seconds.append((before + after) / 2)
    ratios = [tool / bare for tool, bare in zip(tool_seconds, bare_seconds, strict=True)]
    return f"{sum(tool_seconds) / sum(bare_seconds):6.3f}   ({min(ratios):.3f} to {max(ratios):.3f})"


def print_costs(finders: Sequence[Finder], rounds: int) -> None:
    """Print one line per tool and model."""
    for problem in create_problems():
        print(f"{problem.name}: time of a sweep over that of as many bare steps")
        for finder in [*(finder for finder in finders if finder != NBDEBUG_CONFIRM), CONFIRMATION_RUN]:
            print(f"    {finder.name:16} {measure_cost(finder, problem, rounds)}", flush=True)
