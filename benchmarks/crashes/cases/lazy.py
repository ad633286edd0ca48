"""Crashes: lazy modules used before their first batch."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "lazy_weights_initialized",
        "a lazy layer is initialized by hand before the first batch",
        kind="lazy",
        style="functional",
        source="GitHub issue, initialization of lazy modules",
        program="""
import torch
from torch import nn


def initialize(module):
    if isinstance(module, nn.Linear):
        module.weight.data = torch.randn(module.weight.shape) * 0.05


def make():
    net = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, 3))
    net.apply(initialize)
    return net


def train(net, data):
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in data:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(make(), [(torch.randn(10, 7), torch.randint(3, (10,))) for _ in range(3)])
""",
        repair=(("    net.apply(initialize)\n", "    net(torch.zeros(1, 7))\n    net.apply(initialize)\n"),),
        line=("net.apply(initialize)", "nn.LazyLinear(16)", "module.weight.data ="),
        says=(
            "lazy|uninitialized",
            "0.weight|module 0|lazylinear|`0`",
        ),
    ),
    crash(
        "lazy_module_counted",
        "a budget of parameters is checked before the lazy layers have seen data",
        kind="lazy",
        style="typed",
        source="discuss.pytorch.org, count parameters of LazyConv2d",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Budget:
    width: int = 8
    largest: int = 10_000


def make_model(budget: Budget) -> nn.Sequential:
    model = nn.Sequential(nn.LazyConv2d(budget.width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(budget.width * 36, 2))
    size = sum(weight.nelement() for weight in model.parameters())
    if size > budget.largest:
        raise ValueError(f"{size} parameters")
    return model


torch.manual_seed(0)
model = make_model(Budget())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.rand(5, 3, 8, 8)), torch.randint(2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "    size = sum(weight.nelement()",
                "    model(torch.zeros(1, 3, 8, 8))\n    size = sum(weight.nelement()",
            ),
        ),
        line=("size = sum(weight.nelement()", "nn.LazyConv2d(budget.width, 3)"),
        says=("lazy|uninitialized", "0.weight|module 0|lazyconv2d|`0`"),
    ),
)
