"""A decoder whose blocks add attention and gated layers side by side, with normalized queries and a learned scale."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, LENGTH, HEADS = 11, 12, 2
g = torch.Generator().manual_seed(83)
start = torch.randint(0, VOCABULARY, (760, 1), generator=g)
stride = torch.randint(1, 5, (760, 1), generator=g)
text = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY


class ParallelBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.gated = nn.Linear(width, 4 * width)
        self.down = nn.Linear(2 * width, width)
        self.scale = nn.Parameter(torch.full((HEADS, 1, 1), 8.0))
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x):
        b, t, c = x.shape
        h = self.norm(x)
        q, k, v = self.qkv(h).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        scores = self.scale * (q @ k.mT)
        scores += torch.full((t, t), float("-inf")).triu(1)
        attended = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)
        gate, value = self.gated(h).chunk(2, dim=-1)
        x = x + self.out(attended) + self.down(F.silu(gate) * value)
        return x


class ParallelDecoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.zeros(1, LENGTH, width))
        self.blocks = nn.Sequential(ParallelBlock(width), ParallelBlock(width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.embed(ids) + self.position)))


model = ParallelDecoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
train_loader = DataLoader(TensorDataset(text[:640, :-1], text[:640, 1:]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(text[640:, :-1], text[640:, 1:]), batch_size=60)


def loss_fn(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train():
    for _ in range(7):
        for ids, following in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(ids), following)
            loss.backward()
            optimizer.step()
