"""What a sweep costs: its time as a ratio to as many bare training steps, of each tool in turn with the bare loop.

The rates are so low that no sweep ends before its last step. What a tool does to read its curve counts as well; in
torch-lr-finder that is a figure, since it gives its suggestion with one. nbdebug's trainings at one rate, which confirm
it, are measured by themselves. The clock is the CPU time of the process; a
ratio is that of the sums of all rounds, with the lowest and the highest round.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from lr_finders import CONFIRMED, CONFIRMING, Finder, Trial
from lr_others import normalized
from lr_problems import CE, Data, Descent, Problem, momentum
from models import mlp

ROUNDS = 5
HIGHEST = 1e-4


def random_data(*shape: int) -> Data:
    """Noise with random labels."""
    x, y = torch.randn(*shape), torch.randint(0, 10, shape[:1])
    return Data(x, y, x, y)


def subjects() -> tuple[Problem, ...]:
    """Two models of a usual size, with data that are all there before the first step."""
    rows, pictures = random_data(12_800, 784), random_data(3_200, 1, 14, 14)
    return (
        Problem("mlp, 784-512-512-10", lambda: rows, mlp, CE, 128),
        Problem("cnn with batch normalization", lambda: pictures, partial(normalized, 16), CE, 64),
    )


def bare(trial: Trial, steps: int) -> None:
    """So many steps as they stand in every tutorial."""
    optimizer, done = trial.optimizer(HIGHEST), 0
    while done < steps:
        for x, y in trial.loader:
            optimizer.zero_grad()
            loss = trial.problem.loss_fn(trial.model(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
            done += 1
            if done == steps:
                break


def seconds(act: Callable[[], object]) -> float:
    """The CPU time of one call."""
    gc.collect()
    started = time.process_time()
    act()
    return time.process_time() - started


@dataclass
class Clocks:
    """CPU seconds of a tool and of the bare loop before and after it, a round each."""

    tool: list[float]
    bare: list[float]

    def line(self, name: str) -> str:
        """The ratio in a line."""
        each = sorted(a / b for a, b in zip(self.tool, self.bare, strict=True))
        return f"    {name:16} {sum(self.tool) / sum(self.bare):6.3f}   ({each[0]:.3f} to {each[-1]:.3f})"


def cost(finder: Finder, problem: Problem) -> Clocks:
    """A tool and the bare loop, in turns."""
    trial, clocks = Trial.fresh(problem, Descent("SGD", momentum, 0, 0), 0), Clocks([], [])
    steps = finder.suggest(trial, end=HIGHEST).steps
    for _ in range(ROUNDS):
        before = seconds(lambda: bare(trial, steps))
        clocks.tool.append(seconds(lambda: finder.suggest(trial, end=HIGHEST)))
        clocks.bare.append((before + seconds(lambda: bare(trial, steps))) / 2)
    return clocks


def print_costs(finders: list[Finder]) -> None:
    """A line for each tool on each model."""
    for problem in subjects():
        print(f"{problem.name}: the time of a sweep over that of as many bare steps")
        for one in (*(one for one in finders if one.name != CONFIRMED), CONFIRMING):
            print(cost(one, problem).line(one.name), flush=True)
