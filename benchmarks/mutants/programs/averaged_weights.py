"""A moving average of the weights is evaluated, and plain weights are trained."""

import copy

import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = make_moons(900, noise=0.15, random_state=0)
x, y = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y)
train_loader = DataLoader(TensorDataset(x[:700], y[:700]), batch_size=35, shuffle=True)
val_loader = DataLoader(TensorDataset(x[700:], y[700:]), batch_size=100)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
average = copy.deepcopy(model).requires_grad_(False)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train():
    for epoch in range(8):
        for points, side in train_loader:
            optimizer.zero_grad()
            loss_fn(model(points), side).backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.05)
        with torch.no_grad():
            hits = sum((average(points).argmax(1) == side).sum().item() for points, side in val_loader)
        print(epoch, hits / len(val_loader.dataset))
