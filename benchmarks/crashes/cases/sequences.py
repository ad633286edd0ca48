"""Crashes: attention and recurrent networks whose masks, states, positions or products do not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "mask_without_axis_of_heads",
        "the padding mask of the collate function has no axes for heads and queries",
        kind="sequences",
        style="hand_written_model",
        source="Stack Overflow, masked_fill size of tensor a must match in multi-head attention",
        program="""
import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(mask, float("-inf"))
        out = scores.softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(b, t, d))


class Tagger(nn.Module):
    def __init__(self, vocab, tags, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.attention = SelfAttention(dim, heads=4)
        self.tag = nn.Linear(dim, tags)

    def forward(self, tokens):
        mask = tokens == 0
        return self.tag(self.attention(self.embed(tokens), mask))


torch.manual_seed(0)
tokens = torch.randint(1, 50, (6, 11))
tokens[3:, 8:] = 0
tags = torch.randint(0, 5, (6, 11))
model = Tagger(50, 5)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("mask = tokens == 0", "mask = (tokens == 0)[:, None, None, :]"),),
        line=("mask = tokens == 0", 'scores = scores.masked_fill(mask, float("-inf"))'),
        says=("mask", "6, 1, 1, 11|none, none|unsqueeze|1, 1|axis for|axes for|heads"),
    ),
    crash(
        "hidden_state_of_full_batches",
        "the hidden state is made for full batches, and the last batch is smaller",
        kind="sequences",
        style="trainer",
        source="discuss.pytorch.org, Expected hidden[0] size",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Forecaster(nn.Module):
    def __init__(self, batch_size, hidden=20, layers=2):
        super().__init__()
        self.batch_size, self.hidden, self.layers = batch_size, hidden, layers
        self.lstm = nn.LSTM(3, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def init_hidden(self):
        shape = (self.layers, self.batch_size, self.hidden)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, x, state):
        output, _ = self.lstm(x, state)
        return self.out(output[:, -1]).squeeze(1)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def run(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            prediction = self.model(x, self.model.init_hidden())
            loss = nn.functional.mse_loss(prediction, y)
            loss.backward()
            self.optimizer.step()


def windows(series, length=12):
    x = series.unfold(0, length, 1).transpose(1, 2)[:-1]
    return TensorDataset(x, series[length:, 0])


torch.manual_seed(0)
loader = DataLoader(windows(torch.randn(112, 3)), batch_size=32, shuffle=True)
trainer = Trainer(Forecaster(batch_size=32))
trainer.run(loader)
""",
        repair=(("batch_size=32, shuffle=True)", "batch_size=32, shuffle=True, drop_last=True)"),),
        line=(
            "loader = DataLoader(windows(torch.randn(112, 3)), batch_size=32, shuffle=True)",
            "shape = (self.layers, self.batch_size, self.hidden)",
            "prediction = self.model(x, self.model.init_hidden())",
            "return torch.zeros(shape), torch.zeros(shape)",
        ),
        says=("batch", "32", "4"),
    ),
)
