"""A vision Transformer by hand classifies digits from patches, with a class token and nothing hidden."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

images, labels = load_digits(return_X_y=True)
images = (torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) - 5) / 6
labels = torch.tensor(labels)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(81))[:1000]
images, labels = images[order], labels[order]


class FusedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = qkv[0], qkv[1], qkv[2]
        scores = query @ key.transpose(-1, -2) * (c // self.heads) ** -0.5
        weights = F.softmax(scores, dim=-1)
        mixed = (weights @ value).transpose(1, 2).reshape(b, t, c)
        return self.proj(mixed)


class VisionBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = FusedAttention(width, 4)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.summary = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.1 * torch.randn(1, 17, width))
        self.blocks = nn.ModuleList([VisionBlock(width) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.summary.expand(len(x), -1, -1), x], dim=1)
        x = x + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


model = VisionTransformer()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(images[:800], labels[:800]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(images[800:], labels[800:]), batch_size=100)


def train():
    for epoch in range(6):
        for pictures, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(pictures), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum((model(p).argmax(1) == y).sum().item() for p, y in val_loader) / 200)
