"""Cost of a checkup by the number of rows of a table, in training steps of the same setup.

    python benchmarks/checkup_size.py [--rows 1000,100000,1000000] [--columns 54] [--rounds 3]

Half of the columns are real numbers, the others are 0 or 1. The rows come from a TensorDataset or from a dataset that
returns one row at a time. A fifth of them is the validation split. A checkup of a table may take 30 steps or 3 s,
whichever is longer. The last column lists the parts that took longest.
"""

from __future__ import annotations

import argparse
from functools import partial
from statistics import median

import torch
from setups import train
from timing import wall_seconds
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup

STEPS = 10
MAX_STEPS, MAX_SECONDS = 30, 3.0


class RowDataset(Dataset[tuple[Tensor, Tensor]]):
    """Returns one row at a time."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


KINDS = {"TensorDataset": TensorDataset, "by row": RowDataset}


def create_setup(rows: int, columns: int, kind: str) -> Setup:
    """Return a network with two hidden layers on a table of two classes."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, columns, generator=generator)
    x[:, columns // 2 :] = (x[:, columns // 2 :] > 1).float()
    y = (x[:, :4].sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(columns, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 2))
    count = rows * 4 // 5
    train_loader = DataLoader(KINDS[kind](x[:count], y[:count]), batch_size=128, shuffle=True)
    val_loader = DataLoader(KINDS[kind](x[count:], y[count:]), batch_size=256)
    optimizer = torch.optim.Adam(model.parameters())
    return Setup(model, train_loader, val_loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))


def main() -> None:
    """Print one line per number of rows and kind of dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000,16000,100000,1000000", help="comma-separated numbers of rows")
    parser.add_argument("--columns", type=int, default=54)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'rows':>8} {'dataset':14} {'step, ms':>9} {'checkup, s':>11} {'steps':>7} {'of limit':>9}  slowest parts")
    for rows in map(int, options.rows.split(",")):
        for kind in KINDS:
            setup = create_setup(rows, options.columns, kind)
            debugger = Debugger.of(setup)
            report = debugger.checkup()  # also warms up
            steps = min(STEPS, len(setup.train_loader))
            train(setup, steps)
            step = median(wall_seconds(partial(train, setup, steps)) for _ in range(options.rounds)) / steps
            seconds = median(wall_seconds(debugger.checkup) for _ in range(options.rounds))
            limit = max(MAX_STEPS * step, MAX_SECONDS)
            slowest = ", ".join(f"{name} {value:.2f} s" for name, value in list(report.part_seconds.items())[:3])
            costs = f"{1000 * step:9.2f} {seconds:11.2f} {seconds / step:7.0f} {seconds / limit:9.0%}"
            print(f"{rows:8} {kind:14} {costs}  {slowest}", flush=True)


if __name__ == "__main__":
    main()
