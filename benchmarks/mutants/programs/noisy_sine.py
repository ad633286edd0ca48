"""A regression of a curve, full of tanh, by Adam with a plateau schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(30)
x = 2 * torch.rand(600, 1, generator=g) - 1
y = torch.sin(4 * x) + 0.1 * torch.randn(600, 1, generator=g)
train_loader = DataLoader(TensorDataset(x[:450], y[:450]), batch_size=25, shuffle=True)
val_loader = DataLoader(TensorDataset(x[450:], y[450:]), batch_size=150)
model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)


def train():
    for _ in range(15):
        total = 0.0
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(inputs)
        with torch.no_grad():
            validation = sum(loss_fn(model(a), b).item() * len(a) for a, b in val_loader) / len(val_loader.dataset)
        scheduler.step(validation)
        print(f"{total / 450:.4f} {validation:.4f}")
