"""Crashes: lazy modules used before their first batch."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "lazy_parameters_counted",
        "the parameters of a lazy layer are counted before the first batch",
        kind="lazy",
        style="script",
        source="discuss.pytorch.org, Attempted to use an uninitialized parameter",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
x, y = torch.rand(12, 1, 10, 10), torch.randint(10, (12,))
print("parameters:", sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(('print("parameters:"', 'model(x)\nprint("parameters:"'),),
        line=('print("parameters:"', "nn.LazyLinear(10)"),
        says=(
            "lazy|uninitialized",
            "3.weight|module 3|lazylinear|`3`",
        ),
    ),
    crash(
        "lazy_regularization",
        "the weights of a lazy layer enter the loss before the layer has seen data",
        kind="lazy",
        style="trainer",
        source="discuss.pytorch.org, LazyConv2d and weight penalty",
        program="""
import torch
from torch import nn


class Trainer:
    def __init__(self, model, penalty):
        self.model = model
        self.penalty = penalty
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def size_of_weights(self):
        return sum(p.pow(2).sum() for p in self.model.parameters())

    def step(self, x, y):
        penalty = self.penalty * self.size_of_weights()
        loss = nn.functional.cross_entropy(self.model(x), y) + penalty
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
model = nn.Sequential(nn.LazyConv2d(6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))
trainer = Trainer(model, 1e-4)
for _ in range(3):
    trainer.step(torch.rand(8, 3, 9, 9), torch.randint(2, (8,)))
""",
        repair=(
            (
                "trainer = Trainer(model, 1e-4)",
                "model(torch.zeros(1, 3, 9, 9))\ntrainer = Trainer(model, 1e-4)",
            ),
        ),
        line=(
            "trainer = Trainer(model, 1e-4)",
            "nn.LazyConv2d(6, 3)",
            "p.pow(2).sum()",
            "penalty = self.penalty * self.size_of_weights()",
        ),
        says=(
            "lazy|uninitialized",
            "0.weight|module 0|lazyconv2d|`0`",
        ),
    ),
    crash(
        "lazy_norms_logged",
        "the norms of lazy weights are logged before the first batch",
        kind="lazy",
        style="notebook_cells",
        source="Stack Overflow, LazyLinear print weight norm",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.LazyConv1d(6, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1))
x = torch.randn(20, 2, 11)
y = x.mean((1, 2)).unsqueeze(1)
# %%
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
start = {name: p.detach().norm().item() for name, p in model.named_parameters()}
# %%
for epoch in range(3):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print({name: p.norm().item() - start[name] for name, p in model.named_parameters()})
""",
        repair=(("start = {name:", "model(x[:1])\nstart = {name:"),),
        line=("start = {name:", "nn.LazyConv1d(6, 3)"),
        says=(
            "lazy|uninitialized",
            "0.weight|module 0|lazyconv1d|lazylinear|`0`",
        ),
    ),
)
