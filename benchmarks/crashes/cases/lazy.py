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
)
