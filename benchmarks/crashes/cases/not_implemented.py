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
    crash(
        "loss_without_forward",
        "an own loss has a method of another name",
        kind="not_implemented",
        style="typed",
        source="Stack Overflow, custom loss NotImplementedError",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class LossConfig:
    margin: float = 1.0


class HingeLoss(nn.Module):
    def __init__(self, config: LossConfig) -> None:
        super().__init__()
        self.margin = config.margin

    def loss(self, scores: Tensor, signs: Tensor) -> Tensor:
        return (self.margin - scores * signs).clamp(min=0).mean()


torch.manual_seed(0)
model = nn.Linear(4, 1)
criterion = HingeLoss(LossConfig())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(25, 4)
    loss = criterion(model(x).squeeze(1), x[:, 0].sign())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("def loss(self, scores", "def forward(self, scores"),),
        line=("def loss(self, scores", "loss = criterion(", "class HingeLoss(nn.Module)"),
        says=(
            "forward",
            "def loss|`loss`|'loss'|method loss|renam|loss(",
        ),
    ),
)
