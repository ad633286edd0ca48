"""The peak memory of a checkup beside that of training steps of the same set-up, each in a process of its own.

    python benchmarks/memory.py

Peaks are of the resident memory above that of an interpreter that has imported everything, weights included.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable

import torch
from models import ALLOCATOR
from programs import Classifier, conv, set_up
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.measurements import measurement_descriptions
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup


def pictures() -> Setup:
    """Nearly all memory is in activations: seven convolutions on 64 x 64, batches of 64."""
    body = [*conv(3, 16), *[layer for _ in range(6) for layer in conv(16, 16)], nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*body, nn.Flatten(), nn.Linear(16, 10))
    return set_up(model, torch.randn(256, 3, 64, 64), torch.randint(0, 10, (256,)), 64)


def weights() -> Setup:
    """Nearly all memory is in weights and the moments of Adam: 29 million of them."""
    wide = [layer for _ in range(4) for layer in (nn.Linear(2500, 2500), nn.ReLU())]
    model = nn.Sequential(nn.Linear(784, 2500), nn.ReLU(), *wide, nn.Linear(2500, 10))
    return set_up(model, torch.randn(256, 784), torch.randint(0, 10, (256,)), 32)


def tokens() -> Setup:
    """Both: a Transformer of width 384 on 64 tokens, batches of 32."""
    return set_up(Classifier(384, 4), torch.randint(0, 1000, (256, 64)), torch.randint(0, 10, (256,)), 32)


def train(setup: Setup) -> None:
    """Two plain training steps, after which the optimizer has its state."""
    for _, (x, y) in zip(range(2), setup.train_loader, strict=False):
        setup.optimizers[0].zero_grad()
        setup.loss(setup.model(x), setup.split_batch((x, y))).backward()
        setup.optimizers[0].step()


def check(setup: Setup) -> None:
    """One checkup before any training."""
    Debugger.of(setup).checkup()


def train_and_check(setup: Setup) -> None:
    """One checkup of a set-up that is in training."""
    train(setup)
    check(setup)


SETUPS: dict[str, Callable[[], Setup]] = {"pictures": pictures, "weights": weights, "tokens": tokens}
ACTS: dict[str, Callable[[Setup], None]] = {"steps": train, "checkup": check, "steps, checkup": train_and_check}


def peak() -> int:
    """The highest resident memory of this process so far, in the unit of the system."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(setup: str, act: str) -> None:
    """Prints by how much one act raises the peak."""
    torch.set_num_threads(1)
    rule_registry.load_rules(), measurement_descriptions()
    train_and_check(classifier())
    before = peak()
    ACTS[act](SETUPS[setup]())
    print(peak() - before)


def measured(setup: str, act: str) -> int:
    """The same, in a fresh process."""
    command = [sys.executable, __file__, setup, act]
    return int(subprocess.check_output(command, text=True, env={**os.environ, **ALLOCATOR}))


def main() -> None:
    """One line for each set-up: the peak of training, and those of two checkups as multiples of it."""
    mega = 2**20 if sys.platform == "darwin" else 2**10
    print(f"{'set-up':10} {'steps, MB':>10} {'checkup':>8} {'in training':>12}")
    for name in SETUPS:
        steps, fresh, later = (measured(name, act) for act in ACTS)
        print(f"{name:10} {steps / mega:10.0f} {fresh / steps:7.2f}x {later / steps:11.2f}x")


if __name__ == "__main__":
    measure(*sys.argv[1:]) if len(sys.argv) == 3 else main()
