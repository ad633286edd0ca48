"""Crashes: schedulers that raise."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "plateau_without_metric",
        "ReduceLROnPlateau steps without a metric",
        kind="scheduler",
        style="script",
        source="Stack Overflow, step() missing 1 required positional argument: 'metrics'",
        program="""
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(0)
x, y = torch.randn(40, 3), torch.randn(40, 1)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = ReduceLROnPlateau(optimizer, patience=2)
for epoch in range(4):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
""",
        repair=(("scheduler.step()", "scheduler.step(loss.item())"),),
        says=(
            "metric",
            "loss",
        ),
    ),
    crash(
        "one_cycle_steps_per_batch",
        "OneCycleLR is told the epochs and stepped per batch",
        kind="scheduler",
        style="trainer",
        source="discuss.pytorch.org, Tried to step more times than the total number of steps",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, loader, epochs):
        self.model, self.loader, self.epochs = model, loader, epochs
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=0.1, total_steps=epochs)

    def fit(self):
        for _ in range(self.epochs):
            for x, y in self.loader:
                loss = nn.functional.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()


torch.manual_seed(0)
data = TensorDataset(torch.randn(60, 4), torch.randint(2, (60,)))
Trainer(nn.Linear(4, 2), DataLoader(data, batch_size=10), epochs=3).fit()
""",
        repair=(("total_steps=epochs", "total_steps=epochs * len(loader)"),),
        line=("total_steps=epochs", "self.scheduler.step()"),
        says=("total_steps|steps", "3", "18|batch"),
    ),
    crash(
        "resumed_without_initial_lr",
        "a scheduler resumes with last_epoch and a new optimizer",
        kind="scheduler",
        style="typed",
        source="GitHub issue, param 'initial_lr' is not specified in param_groups[0] when resuming an optimizer",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Resume:
    epoch: int = 5
    epochs: int = 8
    lr: float = 0.1


def train(model: nn.Module, config: Resume) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.epochs, last_epoch=config.epoch)
    for _ in range(config.epoch, config.epochs):
        x = torch.randn(16, 3)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()


torch.manual_seed(0)
train(nn.Linear(3, 1), Resume())
""",
        repair=(
            (
                "optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)",
                'optimizer = torch.optim.SGD([{"params": model.parameters(), "initial_lr": config.lr}], lr=config.lr)',
            ),
        ),
        line=("optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)", "last_epoch=config.epoch)"),
        says=(
            "initial_lr",
            "5|cosineannealinglr|last_epoch=",
        ),
    ),
)
