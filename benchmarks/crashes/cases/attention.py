"""Crashes: heads, masks, positions and the order of products in attention."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "padding_mask_time_first",
        "the padding mask is transposed together with the words",
        kind="attention",
        style="trainer",
        source="discuss.pytorch.org, key_padding_mask shape should be (batch, source length)",
        program="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=25, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.attention = nn.MultiheadAttention(dim, 4)
        self.out = nn.Linear(dim, 2)

    def forward(self, words):
        words = words.t()
        mask = words == 0
        x = self.embed(words)
        x, _ = self.attention(x, x, x, key_padding_mask=mask)
        return self.out(x.mean(dim=0))


class Trainer:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters())

    def step(self, words, labels):
        loss = nn.functional.cross_entropy(self.model(words), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer(Encoder())
for _ in range(3):
    words = torch.randint(1, 25, (6, 9))
    words[::2, 6:] = 0
    trainer.step(words, torch.randint(2, (6,)))
""",
        repair=(("mask = words == 0", "mask = (words == 0).t()"),),
        line=("mask = words == 0", "key_padding_mask=mask)", "words = words.t()"),
        says=("mask", "transpose|.t()|.mt|batch first|(batch", "6", "9"),
    ),
    crash(
        "positions_for_time_first",
        "the table of positions is made for sequences with time first, the words have the batch first",
        kind="attention",
        style="custom_parts",
        source="discuss.pytorch.org, PositionalEncoding with batch_first, size of tensor a must match",
        program="""
import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, dim, longest=100):
        super().__init__()
        place = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(longest, 1, dim)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


def make_model(vocab=30, dim=16):
    layer = nn.TransformerEncoderLayer(dim, 2, 32, batch_first=True)
    return nn.Sequential(nn.Embedding(vocab, dim), PositionalEncoding(dim), layer, nn.Linear(dim, vocab))


torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    words = torch.randint(30, (4, 11))
    loss = nn.functional.cross_entropy(model(words).transpose(1, 2), words.flip(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return x + self.table[: x.size(1)]", "return x + self.table[: x.size(1)].transpose(0, 1)"),),
        line=(
            "return x + self.table[: x.size(1)]",
            "table = torch.zeros(longest, 1, dim)",
            'self.register_buffer("table", table)',
        ),
        says=("table", "4", "11"),
    ),
    crash(
        "width_not_of_heads",
        "the width of a config is not a multiple of the number of heads",
        kind="attention",
        style="typed",
        source="GitHub issue, embed_dim must be divisible by num_heads",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    vocab: int = 50
    width: int = 50
    heads: int = 8
    layers: int = 2
    classes: int = 3


class Encoder(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.width)
        layer = nn.TransformerEncoderLayer(config.width, config.heads, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, config.layers)
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(words)).mean(dim=1))


torch.manual_seed(0)
config = Config()
model = Encoder(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    words = torch.randint(config.vocab, (4, 7))
    loss = nn.functional.cross_entropy(model(words), words[:, 0] % config.classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("width: int = 50", "width: int = 48"),),
        line=("width: int = 50", "heads: int = 8", "nn.TransformerEncoderLayer("),
        says=("50", "8", "divisible|multiple"),
    ),
    crash(
        "keys_not_transposed",
        "the scores are queries times keys without a transpose",
        kind="attention",
        style="functional",
        source="Stack Overflow, Expected size for first two dimensions of batch2 tensor",
        program="""
import torch
from torch.nn import functional as F


def project(x, weights):
    return [x @ w for w in weights]


def attend(q, k, v):
    scores = torch.bmm(q, k) / q.size(-1) ** 0.5
    return torch.bmm(F.softmax(scores, dim=-1), v)


torch.manual_seed(0)
weights = [torch.randn(12, 12, requires_grad=True) for _ in range(3)]
head = torch.randn(12, 1, requires_grad=True)
optimizer = torch.optim.SGD([*weights, head], lr=0.01)
for _ in range(3):
    x = torch.randn(4, 10, 12)
    context = attend(*project(x, weights))
    loss = F.mse_loss((context @ head).mean(dim=1), x.sum(dim=(1, 2)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.bmm(q, k)", "torch.bmm(q, k.transpose(1, 2))"),),
        says=("transpose|permute|.mt", "k", "12"),
    ),
)
