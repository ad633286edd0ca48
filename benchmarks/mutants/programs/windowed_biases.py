"""A decoder with linear position biases and a sliding window, written with einsum, models short melodies."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NOTES, LENGTH, WINDOW = 14, 14, 6
g = torch.Generator().manual_seed(75)
start = torch.randint(0, NOTES, (720, 1), generator=g)
motif = torch.randint(-2, 3, (720, 3), generator=g)
moves = motif.repeat(1, 5)[:, :LENGTH]
melody = (start + torch.cat([torch.zeros(720, 1, dtype=torch.long), moves.cumsum(1)], dim=1)) % NOTES


class WindowAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.to_query = nn.Linear(width, width)
        self.to_key = nn.Linear(width, width)
        self.to_value = nn.Linear(width, width)
        self.to_out = nn.Linear(width, width)
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, heads + 1))

    def forward(self, x):
        query = self.to_query(x).unflatten(-1, (self.heads, -1))
        key = self.to_key(x).unflatten(-1, (self.heads, -1))
        value = self.to_value(x).unflatten(-1, (self.heads, -1))
        distance = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])[None, :]
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
        scores = scores - self.slopes[:, None, None] * distance
        blocked = (distance < 0) | (distance >= WINDOW)
        scores = scores.masked_fill(blocked, -1e9)
        weights = scores.softmax(-1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", weights, value)
        return self.to_out(mixed.flatten(2))


class MelodyModel(nn.Module):
    def __init__(self, width=32, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(NOTES, width)
        self.attentions = nn.ModuleList([WindowAttention(width, 4) for _ in range(layers)])
        self.mlps = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width)) for _ in range(layers)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers)])
        self.to_logits = nn.Linear(width, NOTES)

    def forward(self, notes):
        h = self.embedding(notes)
        for i, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            h = h + attention(self.norms[2 * i](h))
            h = h + mlp(self.norms[2 * i + 1](h))
        return self.to_logits(h)


model = MelodyModel()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(melody[:600, :-1], melody[:600, 1:]), batch_size=30, shuffle=True)
val_loader = DataLoader(TensorDataset(melody[600:, :-1], melody[600:, 1:]), batch_size=60)


def loss_fn(logits, targets):
    return nn.functional.cross_entropy(logits.reshape(-1, NOTES), targets.reshape(-1))


def train():
    for epoch in range(6):
        total = 0.0
        for notes, following in train_loader:
            loss = loss_fn(model(notes), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(train_loader))
