"""Crashes: attention heads that do not divide the width."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "grouped_query_heads",
        "the heads of the keys are fewer than those of the queries and are not repeated",
        kind="attention_heads",
        style="hand_written_model",
        source="GitHub issue, grouped-query attention",
        program="""
import torch
from torch import nn


class GroupedAttention(nn.Module):
    def __init__(self, dim=32, heads=8, key_heads=2):
        super().__init__()
        self.heads, self.key_heads, self.width = heads, key_heads, dim // heads
        self.query = nn.Linear(dim, heads * self.width)
        self.key = nn.Linear(dim, key_heads * self.width)
        self.value = nn.Linear(dim, key_heads * self.width)

    def forward(self, x):
        b, n, d = x.shape
        q = self.query(x).view(b, n, self.heads, self.width).transpose(1, 2)
        k = self.key(x).view(b, n, self.key_heads, self.width).transpose(1, 2)
        v = self.value(x).view(b, n, self.key_heads, self.width).transpose(1, 2)
        groups = self.heads // self.key_heads
        weights = torch.softmax(q @ k.transpose(-1, -2) / self.width**0.5, dim=-1)
        v = v.repeat_interleave(groups, dim=1)
        return (weights @ v).transpose(1, 2).reshape(b, n, d)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), GroupedAttention(), nn.Linear(32, 6))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(4, 10, 6)
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "        groups = self.heads // self.key_heads\n",
                "        groups = self.heads // self.key_heads\n        k = k.repeat_interleave(groups, dim=1)\n",
            ),
        ),
        line=("weights = torch.softmax(q @ k.transpose", "k = self.key(x).view("),
        says=("8", "2", "head|repeat|k"),
    ),
    crash(
        "eight_heads_of_sixty",
        "the width of the configuration is not a multiple of its heads",
        kind="attention_heads",
        style="typed",
        source="discuss.pytorch.org, embed_dim must be divisible by num_heads",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class EncoderConfig:
    vocab: int = 40
    width: int = 60
    n_heads: int = 8
    n_layers: int = 2


class Encoder(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(
            nn.MultiheadAttention(config.width, config.n_heads, batch_first=True) for _ in range(config.n_layers)
        )
        self.head = nn.Linear(config.width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x, x, x, need_weights=False)[0]
        return self.head(x.mean(dim=1))


torch.manual_seed(0)
config = EncoderConfig()
model = Encoder(config)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randint(config.vocab, (5, 7))), torch.randint(2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("n_heads: int = 8", "n_heads: int = 6"),),
        line=("n_heads: int = 8", "width: int = 60", "nn.MultiheadAttention(config.width, config.n_heads"),
        says=("60", "8", "divi|multiple"),
    ),
)
