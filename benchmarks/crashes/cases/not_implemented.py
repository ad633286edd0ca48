"""Crashes: modules without a forward of their own."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "module_list_called",
        "a ModuleList is called like a Sequential",
        kind="not_implemented",
        style="hand_written_model",
        source="Stack Overflow, ModuleList NotImplementedError",
        program="""
import torch
from torch import nn


class ResidualMLP(nn.Module):
    def __init__(self, dim=12, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        return self.head(x + self.blocks(x))


torch.manual_seed(0)
model = ResidualMLP()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 12)), torch.randint(2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "nn.ModuleList([nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])",
                "nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])",
            ),
        ),
        line=("self.blocks = nn.ModuleList(", "self.head(x + self.blocks(x))"),
        says=("modulelist", "blocks|sequential"),
    ),
)
