"""Crashes: backward from a tensor of more than one element."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "loss_without_reduction",
        "the loss keeps one value per sample",
        kind="scalar_backward",
        style="script",
        source="Stack Overflow, grad can be implicitly created only for scalar outputs",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
x = torch.randn(40, 3)
y = x @ torch.tensor([[1.0], [2.0], [-1.0]])
model = nn.Linear(3, 1)
criterion = nn.MSELoss(reduction="none")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("loss = criterion(model(x), y)", "loss = criterion(model(x), y).mean()"),),
        line=("loss = criterion(model(x), y)", 'reduction="none"', "loss.backward()"),
        says=("mean|sum|reduction", "scalar|40|one value|single"),
    ),
    crash(
        "losses_of_heads_stacked",
        "the losses of three heads are stacked and not added",
        kind="scalar_backward",
        style="lightning_like",
        source="discuss.pytorch.org, multi-task losses",
        program="""
import torch
from torch import nn


class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.heads = nn.ModuleList([nn.Linear(12, 1) for _ in range(3)])

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        return [head(hidden).squeeze(1) for head in self.heads]

    def training_step(self, batch, batch_idx):
        x, targets = batch
        losses = [nn.functional.l1_loss(out, targets[:, i]) for i, out in enumerate(self(x))]
        return torch.stack(losses)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = Multi()
optimizer = module.configure_optimizers()
for i in range(3):
    loss = module.training_step((torch.randn(8, 6), torch.randn(8, 3)), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return torch.stack(losses)", "return torch.stack(losses).sum()"),),
        line=("return torch.stack(losses)", "loss.backward()", "loss = module.training_step("),
        says=("mean|sum", "scalar|3|one value|single"),
    ),
)
