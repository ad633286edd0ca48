"""Learned queries read a set of points without a residual connection, and blocks on them classify it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

POINTS, LATENTS = 12, 6
g = torch.Generator().manual_seed(84)
center = torch.randn(900, 1, 3, generator=g)
points = center + 0.7 * torch.randn(900, POINTS, 3, generator=g)
label = (points.mean(1)[:, :2] > 0).long() @ torch.tensor([1, 2])


class LatentBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)


class LatentClassifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.latents = nn.Parameter(torch.randn(LATENTS, width))
        self.reading = nn.MultiheadAttention(width, 4, batch_first=True)
        self.blocks = nn.Sequential(LatentBlock(width), LatentBlock(width))
        self.head = nn.Linear(width, 4)

    def forward(self, points):
        x = self.embed(points)
        latents = self.latents.expand(len(points), -1, -1)
        latents, _ = self.reading(latents, x, x)
        return self.head(self.blocks(latents).mean(1))


model = LatentClassifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
train_loader = DataLoader(TensorDataset(points[:720], label[:720]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(points[720:], label[720:]), batch_size=90)


def train():
    for epoch in range(6):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader) / 180)
