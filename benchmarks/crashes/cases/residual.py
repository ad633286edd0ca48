"""Crashes: sums of maps whose sizes differ."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "shortcut_without_stride",
        "the shortcut of a residual block keeps the size that the block halves",
        kind="residual",
        style="hand_written_model",
        source="Stack Overflow, ResNet from scratch",
        program="""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.shortcut = nn.Identity() if n_in == n_out else nn.Conv2d(n_in, n_out, 1)

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return torch.relu(out + self.shortcut(x))


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), Block(8, 8), Block(8, 16, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(16, 10),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(2):
    loss = nn.functional.cross_entropy(net(torch.randn(4, 3, 16, 16)), torch.randint(10, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Conv2d(n_in, n_out, 1)", "nn.Conv2d(n_in, n_out, 1, stride=stride)"),),
        line=("nn.Conv2d(n_in, n_out, 1)", "out + self.shortcut(x)"),
        says=("shortcut", "stride", "8", "16"),
    ),
    crash(
        "channels_double_no_projection",
        "the residual path doubles the channels and the input is added as it is",
        kind="residual",
        style="typed",
        source="GitHub issue, residual one-dimensional network",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class NetConfig:
    widths: tuple[int, ...] = (4, 8, 16)
    kernel: int = 5


class ResidualStage(nn.Module):
    def __init__(self, n_in: int, n_out: int, kernel: int) -> None:
        super().__init__()
        self.project = nn.Identity()
        self.body = nn.Sequential(
            nn.Conv1d(n_in, n_out, kernel, padding=kernel // 2),
            nn.ReLU(),
            nn.Conv1d(n_out, n_out, kernel, padding=kernel // 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x) + self.body(x)


torch.manual_seed(0)
config = NetConfig()
stages = [ResidualStage(a, b, config.kernel) for a, b in zip(config.widths, config.widths[1:])]
net = nn.Sequential(*stages, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(config.widths[-1], 2))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(5, 4, 30)), torch.randint(2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.project = nn.Identity()", "self.project = nn.Conv1d(n_in, n_out, 1)"),),
        line=("self.project = nn.Identity()", "return self.project(x) + self.body(x)"),
        says=("channel|project|body", "4", "8"),
    ),
    crash(
        "position_table_too_short",
        "the table of positions is shorter than the sequences",
        kind="residual",
        style="functional",
        source="discuss.pytorch.org, positional encoding size",
        program="""
import math

import torch
import torch.nn.functional as F

torch.manual_seed(0)
DIM, MAX_LEN = 12, 50


def positions(length, dim):
    t = torch.arange(length).unsqueeze(1)
    rates = torch.exp(torch.arange(0, dim, 2) * (-math.log(100.0) / dim))
    return torch.cat([torch.sin(t * rates), torch.cos(t * rates)], dim=1)


table = positions(MAX_LEN, DIM)
embedding = torch.randn(30, DIM, requires_grad=True)
head = torch.randn(DIM, 2, requires_grad=True)


def score(tokens):
    x = F.embedding(tokens, embedding)
    x = x + table
    return x.mean(1) @ head


optimizer = torch.optim.SGD([embedding, head], lr=0.1)
for _ in range(3):
    tokens = torch.randint(30, (6, 35))
    loss = F.cross_entropy(score(tokens), torch.randint(2, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("x = x + table", "x = x + table[: tokens.shape[1]]"),),
        says=("table", "50", "35"),
    ),
)
