"""An encoder whose attention is linear, without softmax, tags each token with the kind of its sentence."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 9
g = torch.Generator().manual_seed(80)
tokens = torch.randint(0, 12, (800, LENGTH), generator=g)
majority = ((tokens < 6).sum(1, keepdim=True) > 4).long()
tags = (tokens % 2 + majority) % 2


class LinearAttention(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.queries = nn.Linear(width, width)
        self.keys = nn.Linear(width, width)
        self.values = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q = F.elu(self.queries(x).view(b, t, self.heads, -1)) + 1
        k = F.elu(self.keys(x).view(b, t, self.heads, -1)) + 1
        v = self.values(x).view(b, t, self.heads, -1)
        state = torch.einsum("bthd,bthe->bhde", k, v)
        normalizer = torch.einsum("bthd,bhd->bth", q, k.sum(1))
        mixed = torch.einsum("bthd,bhde->bthe", q, state) / normalizer.unsqueeze(-1)
        return self.out(mixed.reshape(b, t, c))


class Tagger(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(12, width)
        self.place = nn.Embedding(LENGTH, width)
        self.norm = nn.LayerNorm(width)
        self.attention = LinearAttention(width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        x = x + self.attention(self.norm(x))
        x = x + self.mlp(self.mlp_norm(x))
        return self.head(x)


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(tokens[:640], tags[:640]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(tokens[640:], tags[640:]), batch_size=80)


def loss_fn(scores, tags):
    return F.cross_entropy(scores.transpose(1, 2), tags)


def train():
    for epoch in range(8):
        for words, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum(loss_fn(model(words), target).item() for words, target in val_loader) / 2)
