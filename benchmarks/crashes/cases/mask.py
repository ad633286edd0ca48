"""Crashes: masks of a wrong shape or dtype."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "float_mask_in_masked_fill",
        "masked_fill gets a mask of floats",
        kind="mask",
        style="hand_written_model",
        source="discuss.pytorch.org, masked_fill_ only supports boolean masks",
        program="""
import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, dim, context):
        super().__init__()
        self.key = nn.Linear(dim, dim, bias=False)
        self.query = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.register_buffer("future", torch.triu(torch.ones(context, context), diagonal=1))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(self.future, float("-inf"))
        return torch.softmax(scores, dim=-1) @ self.value(x)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(20, 16), CausalAttention(16, 12), nn.Linear(16, 20))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    text = torch.randint(20, (4, 13))
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("masked_fill(self.future,", "masked_fill(self.future.bool(),"),),
        line=("masked_fill(self.future,", 'self.register_buffer("future"'),
        says=(
            "bool",
            "future|.bool()|!= 0|== 0",
        ),
    ),
    crash(
        "attn_mask_per_sample",
        "a mask per sample where attention needs one per sample and head",
        kind="mask",
        style="script",
        source="Stack Overflow, The shape of the 3D attn_mask should be",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
batch, length, dim, heads = 4, 10, 32, 4
attention = nn.MultiheadAttention(dim, heads, batch_first=True)
classifier = nn.Linear(dim, 2)
optimizer = torch.optim.Adam([*attention.parameters(), *classifier.parameters()], lr=1e-3)
for step in range(3):
    x = torch.randn(batch, length, dim)
    y = torch.randint(2, (batch,))
    mask = torch.rand(batch, length, length) < 0.2
    mask[:, :, 0] = False
    out, _ = attention(x, x, x, attn_mask=mask)
    loss = nn.functional.cross_entropy(classifier(out.mean(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("attn_mask=mask)", "attn_mask=mask.repeat_interleave(heads, dim=0))"),),
        line=("attn_mask=mask)", "mask = torch.rand(batch, length, length)"),
        says=("mask", "head", "16", "4"),
    ),
    crash(
        "loss_mask_other_length",
        "the mask of the loss still has the first token",
        kind="mask",
        style="custom_parts",
        source="discuss.pytorch.org, boolean indexing: shape of the mask does not match",
        program="""
import torch
from torch import nn


class MaskedLoss(nn.Module):
    def forward(self, logits, tokens, mask):
        targets = tokens[:, 1:]
        losses = nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        return losses[mask].mean()


class NextToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(25, 12)
        self.rnn = nn.RNN(12, 18, batch_first=True)
        self.head = nn.Linear(18, 25)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0])


torch.manual_seed(0)
model, criterion = NextToken(), MaskedLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    tokens = torch.randint(1, 25, (5, 9))
    tokens[2:, 6:] = 0
    loss = criterion(model(tokens[:, :-1]), tokens, tokens != 0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("losses[mask].mean()", "losses[mask[:, 1:]].mean()"),),
        line=("losses[mask].mean()", "tokens, tokens != 0)"),
        says=(
            "mask",
            "9",
            "8",
            "losses|tokens|targets|mask[:, 1:]",
        ),
    ),
    crash(
        "integer_mask_attention",
        "scaled_dot_product_attention gets a mask of integers",
        kind="mask",
        style="functional",
        source="GitHub issue, Expected attn_mask dtype to be bool or float",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
projections = [(torch.randn(16, 16) * 0.2).requires_grad_() for _ in range(3)]
head = torch.zeros(16, 2, requires_grad=True)


def causal(length):
    return torch.tril(torch.ones(length, length, dtype=torch.long))


def encode(x):
    q, k, v = (x @ p for p in projections)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal(x.shape[1]))


optimizer = torch.optim.Adam([*projections, head], lr=0.01)
for _ in range(3):
    x, y = torch.randn(6, 5, 16), torch.randint(2, (6,))
    loss = F.cross_entropy(encode(x).mean(1) @ head, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("dtype=torch.long", "dtype=torch.bool"),),
        line=("dtype=torch.long", "attn_mask=causal(x.shape[1])"),
        says=(
            "mask",
            "bool",
            "causal|torch.bool|.bool()|torch.ones",
        ),
    ),
)
