"""A regression with its own uncertainty: the Gaussian loss takes the mean, the target and the variance."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(45)
x = 4 * torch.rand(900, 3, generator=g) - 2
spread = 0.1 + 0.4 * (x[:, 1] > 0)
y = torch.sin(2 * x[:, 0]) + 0.5 * x[:, 2] + spread * torch.randn(900, generator=g)


class MeanAndVariance(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.mean, self.variance = nn.Linear(48, 1), nn.Linear(48, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.mean(h).squeeze(1), F.softplus(self.variance(h)).squeeze(1) + 1e-3


model = MeanAndVariance()
gaussian = nn.GaussianNLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
train_loader = DataLoader(TensorDataset(x[:700], y[:700]), batch_size=35, shuffle=True)
val_loader = DataLoader(TensorDataset(x[700:], y[700:]), batch_size=100)


def loss_fn(output, target):
    mean, variance = output
    return gaussian(mean, target, variance)


def train():
    for epoch in range(10):
        for features, quantity in train_loader:
            mean, variance = model(features)
            loss = gaussian(mean, quantity, variance)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum(loss_fn(model(a), b).item() for a, b in val_loader) / len(val_loader))
