"""Crashes: heads, masks, positions and the order of products in attention."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "causal_mask_of_block_size",
        "the causal mask is made once for the longest text and not cut to the length of the batch",
        kind="attention",
        style="hand_written_model",
        source="GitHub issue, nanoGPT, size of tensor a must match size of tensor b, mask",
        program="""
import math

import torch
from torch import nn
from torch.nn import functional as F


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, block_size):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size)).bool())

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2) for part in self.qkv(x).split(d, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~self.mask, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class GPT(nn.Module):
    def __init__(self, vocab=20, dim=16, block_size=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attention = CausalAttention(dim, 2, block_size)
        self.head = nn.Linear(dim, vocab)

    def forward(self, words):
        x = self.embed(words)
        return self.head(x + self.attention(x))


torch.manual_seed(0)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
for length in (31, 20, 12):
    words = torch.randint(20, (3, length + 1))
    loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("scores.masked_fill(~self.mask,", "scores.masked_fill(~self.mask[:t, :t],"),),
        line=("scores = scores.masked_fill(~self.mask,", 'self.register_buffer("mask"'),
        says=("mask", "32", "31", "slice|cut|crop|[:t|[:31|longer"),
    ),
    crash(
        "mask_of_tokenizer_is_long",
        "the attention mask of the tokenizer holds zeros and ones as integers",
        kind="attention",
        style="notebook_cells",
        source="Stack Overflow, masked_fill only supports boolean masks, but got mask with dtype long",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
texts = ["a short one", "a text that is longer than the others", "one more text"]
# %%
vocab = {word: i + 1 for i, word in enumerate(sorted({w for text in texts for w in text.split()}))}
rows = [torch.tensor([vocab[word] for word in text.split()]) for text in texts]
ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
attention_mask = (ids != 0).long()
# %%
embed = nn.Embedding(len(vocab) + 1, 8)
score = nn.Linear(8, 1)
head = nn.Linear(8, 2)
parts = nn.ModuleList([embed, score, head])
optimizer = torch.optim.Adam(parts.parameters())
labels = torch.tensor([0, 1, 0])
# %%
for _ in range(3):
    x = embed(ids)
    weights = score(x).squeeze(-1).masked_fill(1 - attention_mask, -1e9).softmax(dim=1)
    loss = nn.functional.cross_entropy(head((weights.unsqueeze(-1) * x).sum(1)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("masked_fill(1 - attention_mask, -1e9)", "masked_fill(attention_mask == 0, -1e9)"),),
        line=(
            "weights = score(x).squeeze(-1).masked_fill(1 - attention_mask, -1e9)",
            "attention_mask = (ids != 0).long()",
        ),
        says=("attention_mask", ".bool()|== 0|== 1|torch.bool"),
    ),
)
