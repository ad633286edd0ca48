"""Crashes: schedulers that raise."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "scheduler_of_model",
        "the scheduler is given the model",
        kind="scheduler",
        style="functional",
        source="Stack Overflow, is not an Optimizer",
        program="""
import torch
from torch import nn
from torch.optim import lr_scheduler


def setup(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = lr_scheduler.StepLR(model, step_size=2, gamma=0.5)
    return optimizer, scheduler


def train(model, epochs):
    optimizer, scheduler = setup(model)
    for _ in range(epochs):
        x = torch.randn(20, 4)
        loss = nn.functional.mse_loss(model(x), x[:, :2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()


torch.manual_seed(0)
train(nn.Linear(4, 2), 4)
""",
        repair=(("StepLR(model,", "StepLR(optimizer,"),),
        says=(
            "optimizer",
            "steplr|scheduler",
        ),
    ),
    crash(
        "one_lambda_for_two_groups",
        "a list of one function for two groups of parameters",
        kind="scheduler",
        style="lightning_like",
        source="discuss.pytorch.org, Expected 2 lr_lambdas, but got 1",
        program="""
import torch
from torch import nn


class FineTune(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

    def configure_optimizers(self):
        groups = [{"params": self.body.parameters(), "lr": 1e-4}, {"params": self.head.parameters(), "lr": 1e-2}]
        optimizer = torch.optim.AdamW(groups)
        warm_up = [lambda step: min(1.0, (step + 1) / 3)]
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)


torch.manual_seed(0)
module = FineTune()
optimizer, scheduler = module.configure_optimizers()
for _ in range(4):
    loss = nn.functional.cross_entropy(module(torch.randn(9, 6)), torch.randint(3, (9,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
""",
        repair=(
            (
                "warm_up = [lambda step: min(1.0, (step + 1) / 3)]",
                "warm_up = [lambda step: min(1.0, (step + 1) / 3)] * 2",
            ),
        ),
        line=("warm_up = [lambda step: min(1.0, (step + 1) / 3)]", "LambdaLR(optimizer, warm_up)"),
        says=("2", "1", "group"),
    ),
    crash(
        "cyclic_momentum_of_adagrad",
        "a cyclic schedule of the momentum for an optimizer without momentum",
        kind="scheduler",
        style="notebook_cells",
        source="Stack Overflow, optimizer must support momentum with cycle_momentum option enabled",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(50, 4)
y = x.abs().sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
# %%
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.001, max_lr=0.05, step_size_up=3)
# %%
for step in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
""",
        repair=(("step_size_up=3)", "step_size_up=3, cycle_momentum=False)"),),
        line=("step_size_up=3)", "torch.optim.Adagrad("),
        says=(
            "momentum",
            "adagrad|cycle_momentum=false",
        ),
    ),
)
