"""Cost of a whole ``watch()``, from opening to end, by the length of a step and of the run.

    python benchmarks/watch_runs.py [--models 1,mlp,10,100] [--lengths 100,10000] [--rounds 3] [--seconds 20]

Each round runs the bare loop and the watched loop, in an order that alternates, on one thread, without a display. The
ratios are those of the CPU times of the process and of the wall times: medians of the rounds, and the extremes. On a
machine with other work, the wall times mostly tell of that work. The first watch of a process, which imports nbdebug,
is not counted. A run of 10,000 steps that takes longer than ``--seconds`` is cut after as many steps as fit, at least
200; the mean step of its second half stands for each of the others. Its row has the sign "≈" and the number of steps
that ran.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from statistics import mean, median

import torch
from models import teacher_labels
from torch import nn
from training_run import StepTime, TrainingRun, create_run

import nbdebug

MIN_STEPS = 200
MODELS = {"1": (64, 128, 1), "10": (384, 512, 2), "100": (384, 1536, 3)}  # batch, width, hidden layers


def create(name: str) -> TrainingRun:
    """Return a run with steps of about as many milliseconds as the name says; "mlp" is 784-512-512-10."""
    if name not in MODELS:
        return create_run(name)
    batch, width, depth = MODELS[name]
    torch.manual_seed(0)
    hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(nn.Linear(784, width), nn.ReLU(), *hidden, nn.Linear(width, 10))
    x = torch.randn(16, batch, 784)
    labels = teacher_labels(x.flatten(0, 1)).view(16, batch)
    return TrainingRun(model, torch.optim.Adam(model.parameters(), 1e-3), list(zip(x, labels, strict=True)))


def measure_run(name: str, length: int, steps: int, is_watched: bool) -> StepTime:
    """Return the CPU seconds and the wall seconds of a new run of ``length`` steps, of which ``steps`` run."""
    run = create(name)
    cpu, wall = time.process_time(), time.perf_counter()
    with nbdebug.watch(run.model, run.optimizer) if is_watched else nullcontext():
        times = run.run_steps(steps, lambda step, loss: None)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    late, left = times[steps // 2 :], length - steps
    return StepTime(cpu + left * mean(step.cpu for step in late), wall + left * mean(step.wall for step in late))


def describe_ratios(ratios: list[float]) -> str:
    """Return the median, the minimum and the maximum."""
    return f"{median(ratios):7.3f} ({min(ratios):.3f} – {max(ratios):.3f})"


def main() -> None:
    """Print one line per model and length of the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="1,mlp,10,100", help="comma-separated: 1, mlp, 10, 100")
    parser.add_argument("--lengths", default="100,10000", help="comma-separated numbers of steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    measure_run("1", MIN_STEPS, MIN_STEPS, True)
    print(f"{'model':6} {'step, ms':>9} {'steps':>6} {'CPU':>7} {'minimum – maximum':>17}    {'wall':>7}")
    for name in options.models.split(","):
        measure_run(name, 5, 5, False)  # warms up
        step = measure_run(name, 20, 20, False).cpu / 20
        for length in map(int, options.lengths.split(",")):
            steps = min(length, max(MIN_STEPS, int(options.seconds / step)))
            pairs = []
            for i in range(options.rounds):
                times = {kind: measure_run(name, length, steps, kind) for kind in (i % 2 == 0, i % 2 == 1)}
                pairs.append((times[True], times[False]))
            cpu, wall = ([watched[i] / bare[i] for watched, bare in pairs] for i in (0, 1))
            cut = "" if steps == length else f"  ≈ from {steps} steps"
            ratios = f"{describe_ratios(cpu)}  {describe_ratios(wall)}"
            print(f"{name:6} {1000 * step:9.2f} {length:6} {ratios}{cut}", flush=True)


if __name__ == "__main__":
    main()
