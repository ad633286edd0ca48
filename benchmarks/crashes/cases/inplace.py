"""Crashes: tensors changed in place that backward needs."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "relu_inplace_after_sigmoid",
        "the gates are changed in place after the sigmoid that needs them",
        kind="inplace",
        style="hand_written_model",
        source="discuss.pytorch.org, modified by an inplace operation",
        program="""
import torch
from torch import nn


class GatedUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        value = self.value(x)
        out = value * gate
        gate += 0.1
        return out + x * gate


torch.manual_seed(0)
model = nn.Sequential(GatedUnit(6), GatedUnit(6), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    loss = (model(x).squeeze(1) - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("gate += 0.1", "gate = gate + 0.1"),),
        says=("in place|in-place|inplace", "gate"),
    ),
)
