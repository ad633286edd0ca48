"""Crashes: integers given to layers of floats."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "layer_norm_of_counts",
        "counts of events go as integers into a normalization",
        kind="integer_input",
        style="trainer",
        source="GitHub issue, mixed dtype (CPU)",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CountNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.out = nn.Linear(6, 2)

    def forward(self, counts):
        return self.out(self.norm(counts))


class Trainer:
    def __init__(self, data):
        self.loader = DataLoader(data, batch_size=12)
        self.model = CountNet()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self):
        for counts, label in self.loader:
            loss = nn.functional.cross_entropy(self.model(counts), label)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(TensorDataset(torch.randint(0, 9, (36, 6)), torch.randint(2, (36,)))).fit()
""",
        repair=(("self.model(counts), label", "self.model(counts.float()), label"),),
        line=("self.model(counts), label", "torch.randint(0, 9, (36, 6))", "self.out(self.norm(counts))"),
        says=("int64|long|integer", "float", "norm"),
    ),
    crash(
        "integer_noise",
        "noise with the shape and the dtype of integers",
        kind="integer_input",
        style="functional",
        source="Stack Overflow, randn_like on integers",
        program="""
import torch
import torch.nn.functional as F


def jitter(levels, amount=0.1):
    return levels + amount * torch.randn_like(levels)


def fit(levels, target, steps=4):
    weight = torch.zeros(levels.shape[1], requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    for _ in range(steps):
        loss = F.mse_loss(jitter(levels) @ weight, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weight


torch.manual_seed(0)
fit(torch.randint(0, 5, (30, 3)), torch.rand(30))
""",
        repair=(("torch.randn_like(levels)", "torch.randn_like(levels, dtype=torch.float32)"),),
        line=("torch.randn_like(levels)", "fit(torch.randint(0, 5, (30, 3))"),
        says=("int64|long|integer", "float"),
    ),
)
