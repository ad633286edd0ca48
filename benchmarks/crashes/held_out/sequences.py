"""Crashes: attention and recurrent networks whose masks, states, positions or products do not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "keys_are_not_transposed",
        "the scores are the product of queries and keys without the transpose",
        kind="sequences",
        style="functional",
        source="Stack Overflow, Expected size for first two dimensions of batch2 tensor",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
DIM = 16


def parameter(*shape):
    return (0.1 * torch.randn(*shape)).requires_grad_()


w_query, w_key, w_value, w_out = (parameter(DIM, DIM) for _ in range(4))
w_class = parameter(DIM, 3)


def attend(x):
    query, key, value = x @ w_query, x @ w_key, x @ w_value
    scores = torch.bmm(query, key) / DIM**0.5
    weights = F.softmax(scores, dim=-1)
    return torch.bmm(weights, value) @ w_out


def classify(x):
    return (x + attend(x)).mean(1) @ w_class


optimizer = torch.optim.SGD([w_query, w_key, w_value, w_out, w_class], lr=0.1)
for _ in range(4):
    x, y = torch.randn(8, 10, DIM), torch.randint(0, 3, (8,))
    loss = F.cross_entropy(classify(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.bmm(query, key)", "torch.bmm(query, key.transpose(1, 2))"),),
        says=("key", "transpos|.mt|permute"),
    ),
    crash(
        "positions_shorter_than_texts",
        "the table of positions has been made for shorter texts than the loader gives",
        kind="sequences",
        style="lightning_like",
        source="GitHub issue, positional encoding, size of tensor a must match at dimension 1",
        program="""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class PositionalEncoding(nn.Module):
    def __init__(self, dim, max_len):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        rates = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(1, max_len, dim)
        table[0, :, 0::2] = torch.sin(position * rates)
        table[0, :, 1::2] = torch.cos(position * rates)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


class Sentiment(nn.Module):
    def __init__(self, dim=32, max_len=64):
        super().__init__()
        self.embed = nn.Embedding(200, dim)
        self.positions = PositionalEncoding(dim, max_len)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(dim, 2)

    def forward(self, tokens):
        return self.head(self.encoder(self.positions(self.embed(tokens))).mean(1))

    def training_step(self, batch):
        tokens, labels = batch
        return nn.functional.cross_entropy(self(tokens), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


torch.manual_seed(0)
reviews = TensorDataset(torch.randint(0, 200, (16, 80)), torch.randint(0, 2, (16,)))
module = Sentiment()
optimizer = module.configure_optimizers()
for batch in DataLoader(reviews, batch_size=4):
    loss = module.training_step(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("def __init__(self, dim=32, max_len=64):", "def __init__(self, dim=32, max_len=128):"),),
        line=(
            "def __init__(self, dim=32, max_len=64):",
            "module = Sentiment()",
            "self.positions = PositionalEncoding(dim, max_len)",
            "reviews = TensorDataset(torch.randint(0, 200, (16, 80)), torch.randint(0, 2, (16,)))",
        ),
        says=("64", "80", "position|table|max_len"),
    ),
    crash(
        "bidirectional_decoder_input",
        "the encoder was made bidirectional in its configuration, the classifier still takes one direction",
        kind="sequences",
        style="notebook_cells",
        source="Stack Overflow, mat1 and mat2 shapes after bidirectional=True",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
config = {"vocab": 120, "embed": 16, "hidden": 24, "classes": 4, "bidirectional": True}
# %%
class TextGRU(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embedding = nn.Embedding(cfg["vocab"], cfg["embed"])
        self.gru = nn.GRU(cfg["embed"], cfg["hidden"], batch_first=True, bidirectional=cfg["bidirectional"])
        self.dropout = nn.Dropout(0.3)
        self.classifier = nn.Linear(cfg["hidden"], cfg["classes"])

    def forward(self, tokens):
        outputs, _ = self.gru(self.embedding(tokens))
        pooled = outputs.max(dim=1).values
        return self.classifier(self.dropout(pooled))
# %%
model = TextGRU(config)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
# %%
losses = []
for epoch in range(3):
    tokens, labels = torch.randint(0, 120, (10, 15)), torch.randint(0, 4, (10,))
    optimizer.zero_grad()
    loss = criterion(model(tokens), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
""",
        repair=(
            (
                'self.classifier = nn.Linear(cfg["hidden"], cfg["classes"])',
                'self.classifier = nn.Linear(cfg["hidden"] * (1 + cfg["bidirectional"]), cfg["classes"])',
            ),
        ),
        line=(
            'self.classifier = nn.Linear(cfg["hidden"], cfg["classes"])',
            'config = {"vocab": 120, "embed": 16, "hidden": 24, "classes": 4, "bidirectional": True}',
        ),
        says=("classifier", "48", "24"),
    ),
)
