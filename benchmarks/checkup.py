"""Cost of checkups and of an overfit test, in training steps of the same setup.

    python benchmarks/checkup.py [--setups digits,mlp,cnn,transformer] [--rounds 5]

A step reads its batch and runs zero_grad, forward, loss, backward and optimizer step. The cost of a checkup is the
median of the rounds. The overfit test runs once.
"""

from __future__ import annotations

import argparse
from functools import partial
from statistics import median

import torch
from setups import SETUPS, train
from timing import wall_seconds

from nbdebug.debugger import Debugger

STEPS = 10


def print_costs(name: str, rounds: int) -> None:
    """Print the costs of one setup."""
    setup = SETUPS[name]()
    debugger = Debugger.of(setup)
    debugger.checkup()
    train(setup, STEPS)
    tasks = (partial(train, setup, STEPS), partial(debugger.checkup, "quick"), debugger.checkup)
    times = [[wall_seconds(task) for task in tasks] for _ in range(rounds)]
    training, quick, standard = (median(column) for column in zip(*times, strict=True))
    step = training / STEPS
    costs = (quick / step, standard / step, wall_seconds(debugger.overfit) / step)
    print(f"{name:12} {1000 * step:9.2f} " + " ".join(f"{cost:15.1f}" for cost in costs), flush=True)


def main() -> None:
    """Print one line per setup."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setups", default=",".join(SETUPS), help="comma-separated names")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'setup':12} {'step, ms':>9} {'quick, steps':>15} {'checkup, steps':>15} {'overfit, steps':>15}")
    for name in options.setups.split(","):
        print_costs(name, options.rounds)


if __name__ == "__main__":
    main()
