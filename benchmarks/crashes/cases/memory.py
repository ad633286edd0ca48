"""Crashes: tensors that do not fit into memory."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "all_pairs_of_points",
        "the distances of all pairs of points",
        kind="memory",
        style="script",
        source="Stack Overflow, DefaultCPUAllocator: can't allocate memory",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
points = torch.randn(10_000_000, 2)
embed = nn.Linear(2, 2)
optimizer = torch.optim.SGD(embed.parameters(), lr=0.01)
for step in range(3):
    batch = points
    optimizer.zero_grad()
    z = embed(batch)
    distances = (z[:, None, :] - z[None, :, :]).norm(dim=2)
    loss = distances.exp().neg().mean()
    loss.backward()
    optimizer.step()
""",
        repair=(("batch = points", "batch = points[torch.randint(len(points), (64,))]"),),
        line=("batch = points", "distances = (z[:, None, :]", "points = torch.randn(10_000_000, 2)"),
        says=("memory", "distances|10000000|10,000,000|10_000_000"),
    ),
    crash(
        "one_hot_of_hashes",
        "one-hot vectors of hashed words",
        kind="memory",
        style="functional",
        source="discuss.pytorch.org, one_hot of a huge vocabulary",
        program="""
import zlib

import torch
import torch.nn.functional as F

BUCKETS = 2**44
SMALL = 64


def hashed(words, n):
    return torch.tensor([zlib.crc32(word.encode()) % n for word in words])


def represent(words, n=BUCKETS):
    return F.one_hot(hashed(words, n), num_classes=n).float()


torch.manual_seed(0)
weight = torch.zeros(SMALL, 2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
texts = [("good film", 1), ("bad plot", 0), ("good plot", 1)]
for text, label in texts:
    logits = represent(text.split()).mean(0, keepdim=True) @ weight
    loss = F.cross_entropy(logits, torch.tensor([label]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("n=BUCKETS)", "n=SMALL)"),),
        line=("n=BUCKETS)", "BUCKETS = 2**44", "F.one_hot(hashed(words, n)"),
        says=("memory", "one_hot|17592186044416"),
    ),
    crash(
        "linear_on_large_images",
        "a linear layer over every pixel of large images",
        kind="memory",
        style="typed",
        source="Stack Overflow, huge fully connected layer",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Config:
    size: int = 4096
    hidden: int = 2_000_000
    pooled: int = 4


class Regressor(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(config.size)
        self.hidden = nn.Linear(3 * config.size**2, config.hidden)
        self.out = nn.Linear(config.hidden, 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.out(torch.relu(self.hidden(self.pool(images).flatten(1)))).squeeze(1)


torch.manual_seed(0)
config = Config()
model = Regressor(config)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    images = torch.rand(4, 3, 32, 32)
    loss = nn.functional.mse_loss(model(images), images.mean((1, 2, 3)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("size: int = 4096", "size: int = 4"), ("hidden: int = 2_000_000", "hidden: int = 200")),
        line=("size: int = 4096", "hidden: int = 2_000_000", "self.hidden = nn.Linear(3 * config.size**2"),
        says=("memory", "hidden|linear|50331648"),
    ),
    crash(
        "attention_over_long_recording",
        "the attention matrix of a very long recording",
        kind="memory",
        style="hand_written_model",
        source="GitHub issue, out of memory in attention scores",
        program="""
import torch
from torch import nn


class Attend(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return torch.softmax(scores, dim=-1) @ x


torch.manual_seed(0)
recording = torch.randn(1, 9_000_000, 1)
model = Attend(1)
optimizer = torch.optim.Adam(model.parameters())
window = 9_000_000
for start in (0, 1000, 2000):
    part = recording[:, start : start + window]
    loss = nn.functional.mse_loss(model(part), part)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("window = 9_000_000", "window = 200"),),
        line=("window = 9_000_000", "scores = self.query(x) @ self.key(x)", "recording = torch.randn(1, 9_000_000, 1)"),
        says=("memory", "9000000|9,000,000|9_000_000|scores"),
    ),
)
