"""A stream without a length yields windows of a drifting wave; a model predicts the next value and its direction."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset


class Windows(IterableDataset):
    def __init__(self, seed, count):
        self.seed, self.count = seed, count

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.count):
            start, speed = 6.28 * torch.rand(1, generator=g), 0.3 + 0.5 * torch.rand(1, generator=g)
            wave = torch.sin(start + speed * torch.arange(17.0)) + 0.05 * torch.randn(17, generator=g)
            yield wave[:16], wave[16], (wave[16] > wave[15]).float()


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU())
        self.value, self.rises = nn.Linear(32, 1), nn.Linear(32, 1)

    def forward(self, window):
        h = self.trunk(window)
        return self.value(h).squeeze(1), self.rises(h).squeeze(1)


model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
train_loader, val_loader = DataLoader(Windows(1, 1600), batch_size=32), DataLoader(Windows(2, 320), batch_size=80)


def loss_fn(output, target, rises):
    value, direction = output
    return F.mse_loss(value, target) + 0.3 * F.binary_cross_entropy_with_logits(direction, rises)


def train():
    for epoch in range(4):
        for window, target, rises in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(window), target, rises)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            losses = [loss_fn(model(window), *rest).item() for window, *rest in val_loader]
        print(epoch, sum(losses) / len(losses))
