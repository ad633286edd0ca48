"""What checkups and an overfit test cost, in training steps of the same set-up, measured in one run.

    python benchmarks/checkup.py

A step is zero_grad, forward, loss, backward, step and the reading of its batch; the median of five rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from programs import PROGRAMS

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup

ROUNDS, STEPS = 5, 10


def seconds(act: Callable[[], object]) -> float:
    """The time of one call."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def train(setup: Setup) -> None:
    """``STEPS`` plain training steps."""
    for _, (x, y) in zip(range(STEPS), setup.train_loader, strict=False):
        setup.optimizers[0].zero_grad()
        setup.loss(setup.model(x), setup.split_batch((x, y))).backward()
        setup.optimizers[0].step()


def main() -> None:
    """One line for each program."""
    torch.set_num_threads(1)
    print(f"{'program':12} {'step, ms':>9} {'quick, steps':>15} {'checkup, steps':>15} {'overfit, steps':>15}")
    for name, build in PROGRAMS.items():
        setup = build()
        debugger = Debugger.of(setup)
        debugger.checkup()
        train(setup)
        quick = partial(debugger.checkup, "quick")
        acts = (partial(train, setup), quick, debugger.checkup)
        rounds = [[seconds(act) for act in acts] for _ in range(ROUNDS)]
        ten, brief, whole = (median(column) for column in zip(*rounds, strict=True))
        step, overfit = ten / STEPS, seconds(debugger.overfit)
        costs = (brief / step, whole / step, overfit / step)
        print(f"{name:12} {1000 * step:9.2f} " + " ".join(f"{cost:15.1f}" for cost in costs))


if __name__ == "__main__":
    main()
