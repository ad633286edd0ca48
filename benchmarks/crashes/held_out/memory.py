"""Crashes: tensors that do not fit into memory."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "gram_of_pixels",
        "the similarities of all pixels of a large picture",
        kind="memory",
        style="reshape_by_hand",
        source="discuss.pytorch.org, self-attention over pixels",
        program="""
import torch
from torch import nn


class NonLocal(nn.Module):
    def __init__(self, channels=2):
        super().__init__()
        self.theta = nn.Conv2d(channels, 1, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        keys = self.theta(x).reshape(b, 1, h * w)
        weights = torch.softmax(keys.transpose(1, 2) @ keys, dim=-1)
        values = x.reshape(b, c, h * w).transpose(1, 2)
        return x + (weights @ values).transpose(1, 2).reshape(b, c, h, w)


torch.manual_seed(0)
size = 2800
model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), NonLocal(), nn.Conv2d(2, 1, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    picture = torch.rand(1, 1, size, size)
    loss = nn.functional.mse_loss(model(picture), picture)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("size = 2800", "size = 12"),),
        line=("size = 2800", "weights = torch.softmax(keys.transpose(1, 2) @ keys"),
        says=("memory", "7840000|7,840,000|2800|keys"),
    ),
    crash(
        "cosine_of_all_pairs",
        "the similarities of all pairs of a bank of embeddings",
        kind="memory",
        style="trainer",
        source="GitHub issue, contrastive loss over the whole memory bank",
        program="""
import torch
from torch import nn


class BankTrainer:
    def __init__(self, size):
        self.bank = torch.randn(size, 3)
        self.encoder = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), lr=0.1)

    def similarities(self, z):
        z = nn.functional.normalize(z, dim=1)
        return z @ z.T

    def step(self, rows):
        loss = self.similarities(self.encoder(rows)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def fit(self, steps):
        for _ in range(steps):
            self.step(self.bank)


torch.manual_seed(0)
BankTrainer(8_000_000).fit(3)
""",
        repair=(("self.step(self.bank)", "self.step(self.bank[torch.randint(len(self.bank), (256,))])"),),
        line=("self.step(self.bank)", "return z @ z.T", "BankTrainer(8_000_000)"),
        says=("memory", "8000000|8,000,000|8_000_000|similarities|z.t"),
    ),
)
