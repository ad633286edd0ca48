"""Peak memory of a checkup, compared with that of training steps of the same setup.

    python benchmarks/memory.py [--setups images,weights,tokens]

Each measurement runs in a fresh process. It counts the resident memory above that of an interpreter that has imported
everything, so it includes the weights.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import torch
from models import Transformer
from process_memory import ALLOCATOR_ENVIRONMENT
from setups import conv_block, create_setup, train
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.measurements import measurement_descriptions
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup


def images() -> Setup:
    """Seven convolutions on images of 64 × 64, batches of 64: activations dominate."""
    body = [*conv_block(3, 16), *[layer for _ in range(6) for layer in conv_block(16, 16)], nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*body, nn.Flatten(), nn.Linear(16, 10))
    return create_setup(model, torch.randn(256, 3, 64, 64), torch.randint(0, 10, (256,)), 64)


def weights() -> Setup:
    """An MLP with 29 million weights: the weights and the moments of Adam dominate."""
    hidden = [layer for _ in range(4) for layer in (nn.Linear(2500, 2500), nn.ReLU())]
    model = nn.Sequential(nn.Linear(784, 2500), nn.ReLU(), *hidden, nn.Linear(2500, 10))
    return create_setup(model, torch.randn(256, 784), torch.randint(0, 10, (256,)), 32)


def tokens() -> Setup:
    """A Transformer of width 384 on 64 tokens, batches of 32: activations and weights both matter."""
    model = Transformer(1000, 10, 384, 4, feedforward=1536)
    return create_setup(model, torch.randint(0, 1000, (256, 64)), torch.randint(0, 10, (256,)), 32)


def run_checkup(setup: Setup) -> None:
    """Run a checkup before any training."""
    Debugger.of(setup).checkup()


def train_and_run_checkup(setup: Setup) -> None:
    """Run a checkup of a setup in training."""
    train(setup, 2)
    run_checkup(setup)


SETUPS: dict[str, Callable[[], Setup]] = {"images": images, "weights": weights, "tokens": tokens}
# The optimizer has its state after the first step; the second step reaches the peak of training.
TASKS: dict[str, Callable[[Setup], None]] = {
    "steps": partial(train, steps=2),
    "checkup": run_checkup,
    "steps, checkup": train_and_run_checkup,
}


def peak_resident() -> int:
    """Return the peak resident memory of this process, in the unit of the operating system."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def print_peak_increase(setup: str, task: str) -> None:
    """Print the increase of the peak by one task."""
    torch.set_num_threads(1)
    rule_registry.load_rules()
    measurement_descriptions()
    train_and_run_checkup(classifier())
    before = peak_resident()
    TASKS[task](SETUPS[setup]())
    print(peak_resident() - before)


def measure_in_process(setup: str, task: str) -> int:
    """Return the increase of the peak by one task, measured in a fresh process."""
    command = [sys.executable, __file__, "--task", setup, task]
    return int(subprocess.check_output(command, text=True, env={**os.environ, **ALLOCATOR_ENVIRONMENT}))


def main() -> None:
    """Print one line per setup: the peak of training, and the peaks of two checkups as multiples of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setups", default=",".join(SETUPS), help="comma-separated names")
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        return print_peak_increase(*options.task)
    units_per_mib = 2**20 if sys.platform == "darwin" else 2**10
    print(f"{'setup':10} {'steps, MiB':>10} {'checkup':>8} {'in training':>12}")
    for name in options.setups.split(","):
        steps, checkup, checkup_in_training = (measure_in_process(name, task) for task in TASKS)
        ratios = f"{checkup / steps:7.2f}x {checkup_in_training / steps:11.2f}x"
        print(f"{name:10} {steps / units_per_mib:10.0f} {ratios}", flush=True)


if __name__ == "__main__":
    main()
