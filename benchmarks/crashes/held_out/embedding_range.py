"""Crashes: indices that an embedding does not have."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "positions_beyond_table",
        "sequences longer than the table of learned positions",
        kind="embedding_range",
        style="hand_written_model",
        source="GitHub issue, Token indices sequence length is longer than the maximum",
        program="""
import torch
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab, dim=16, max_length=32):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Embedding(max_length, dim)
        self.mix = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, 3)

    def forward(self, ids):
        place = torch.arange(ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(place)
        return self.head(self.mix(x).mean(dim=1))


torch.manual_seed(0)
model = TextEncoder(vocab=90)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for length in (20, 32, 40):
    ids = torch.randint(90, (4, length))
    loss = nn.functional.cross_entropy(model(ids), torch.randint(3, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("model(ids)", "model(ids[:, :32])"),),
        line=("model(ids)", "max_length=32", "self.positions(place)", "place = torch.arange", "for length in"),
        says=("positions", "32", "40|39"),
    ),
    crash(
        "vocabulary_of_training_part",
        "the vocabulary was counted before the unknown word was added",
        kind="embedding_range",
        style="script",
        source="discuss.pytorch.org, IndexError: index out of range in self",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
text = "to be or not to be that is the question".split()
vocab = {word: i for i, word in enumerate(sorted(set(text)))}
vocab_size = len(vocab)
vocab["<unk>"] = len(vocab)

embedding = nn.Embedding(vocab_size, 10)
decoder = nn.Linear(10, len(vocab))
optimizer = torch.optim.SGD([*embedding.parameters(), *decoder.parameters()], lr=0.1)


def encode(words):
    return torch.tensor([vocab.get(word, vocab["<unk>"]) for word in words])


for line in ("to be or not", "that is the answer now", "be the question"):
    ids = encode(line.split())
    loss = nn.functional.cross_entropy(decoder(embedding(ids[:-1])), ids[1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Embedding(vocab_size, 10)", "nn.Embedding(len(vocab), 10)"),),
        line=(
            "nn.Embedding(vocab_size, 10)",
            "vocab_size = len(vocab)",
            'vocab["<unk>"] = len(vocab)',
            "decoder(embedding(ids[:-1]))",
        ),
        says=("8", "embedding"),
    ),
    crash(
        "index_select_rows",
        "neighbors counted from one select rows of a feature table",
        kind="embedding_range",
        style="functional",
        source="GitHub issue, edge_index out of range",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
N = 12
features = torch.randn(N, 5)
labels = torch.randint(2, (N,))
edges = torch.stack([torch.arange(1, N + 1), torch.arange(1, N + 1).roll(1)])
weight = (torch.randn(5, 2) * 0.3).requires_grad_()


def aggregate(x, edges):
    messages = x.index_select(0, edges[0])
    return torch.zeros_like(x).index_add(0, edges[1], messages)


def logits(x):
    return (x + aggregate(x, edges)) @ weight


optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(logits(features), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.arange(1, N + 1).roll(1)])", "torch.arange(1, N + 1).roll(1)]) - 1"),),
        line=("edges = torch.stack(", "messages = x.index_select(0, edges[0])", "aggregate(x, edges)) @ weight"),
        says=("12", "edges|index"),
    ),
)
