"""An encoder by hand reads two segments of a padded row and tells whether both are about the same topic."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, START, LENGTH, TOPICS = 0, 1, 12, 3
g = torch.Generator().manual_seed(91)
topics = torch.randint(0, TOPICS, (1200, 2), generator=g)
first = torch.randint(4, 7, (1200, 1), generator=g)
lengths = torch.randint(9, LENGTH + 1, (1200, 1), generator=g)
segments = (torch.arange(LENGTH) >= first).long()
words = 2 + 5 * topics.gather(1, segments) + torch.randint(0, 5, (1200, LENGTH), generator=g)
words[:, 0] = START
is_real = torch.arange(LENGTH) < lengths
words, segments = words * is_real, segments * is_real
same = (topics[:, 0] == topics[:, 1]).long()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, hidden):
        n, t, w = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(w // self.heads)
        scores = scores.masked_fill(hidden, float("-inf"))
        mixed = scores.softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(n, t, w))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 4)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x, hidden):
        x = x + self.attention(self.attention_norm(x), hidden)
        return x + self.mlp(self.mlp_norm(x))


class PairClassifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(17, width, padding_idx=PAD)
        self.segment = nn.Embedding(2, width)
        self.position = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, words, segments):
        hidden = (words == PAD)[:, None, None, :]
        x = self.embed(words) + self.segment(segments) + self.position(torch.arange(words.shape[1]))
        for block in self.blocks:
            x = block(x, hidden)
        return self.head(self.norm(x[:, 0]))


model = PairClassifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(words[:960], segments[:960], same[:960]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(words[960:], segments[960:], same[960:]), batch_size=120)


def train():
    for epoch in range(6):
        for text, part, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(text, part), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, [(model(a, b).argmax(1) == c).float().mean().item() for a, b, c in val_loader])
