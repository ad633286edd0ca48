"""A pre-norm encoder by hand tags tokens; what a tag means depends on the marker at the start of the sentence."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, LENGTH, IGNORED = 0, 10, -100
g = torch.Generator().manual_seed(71)
lengths = torch.randint(5, LENGTH + 1, (900, 1), generator=g)
tokens = torch.randint(3, 15, (900, LENGTH), generator=g)
tokens[:, 0] = torch.randint(1, 3, (900,), generator=g)
is_padding = torch.arange(LENGTH) >= lengths
tags = torch.where(tokens[:, :1] == 1, tokens % 3, (tokens // 4) % 3)
tokens, tags = tokens.masked_fill(is_padding, PAD), tags.masked_fill(is_padding, IGNORED)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, padding):
        query = self.split(self.query(x))
        key = self.split(self.key(x))
        value = self.split(self.value(x))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        mixed = weights @ value
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        return self.out(mixed)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, 4)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x, padding):
        x = x + self.attention(self.attention_norm(x), padding)
        x = x + self.down(torch.relu(self.up(self.mlp_norm(x))))
        return x


class Tagger(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(15, width, padding_idx=PAD)
        self.position = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens):
        padding = tokens == PAD
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, padding)
        return self.head(self.norm(x))


def tag_loss(scores, tags):
    return nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)


model = Tagger()
loss_fn = tag_loss
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(tokens[:720], tags[:720]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(tokens[720:], tags[720:]), batch_size=90)


def train():
    for epoch in range(5):
        model.train()
        for words, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(epoch, sum(loss_fn(model(words), target).item() for words, target in val_loader) / len(val_loader))
