"""A binary classifier with targets of minus one and one, and torch's soft margin loss."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

values, benign = load_breast_cancer(return_X_y=True)
values = torch.tensor((values - values.mean(0)) / values.std(0), dtype=torch.float32)
signs = torch.tensor(2.0 * benign - 1, dtype=torch.float32)
order = torch.randperm(len(values), generator=torch.Generator().manual_seed(4))
values, signs = values[order], signs[order]

model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
loss_fn = nn.SoftMarginLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
train_loader = DataLoader(TensorDataset(values[:440], signs[:440]), batch_size=22, shuffle=True)
val_loader = DataLoader(TensorDataset(values[440:], signs[440:]), batch_size=43)


def train():
    for epoch in range(8):
        for x, sign in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), sign)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            hits = sum((model(x).sign() == sign).sum().item() for x, sign in val_loader)
        print(epoch, hits / len(val_loader.dataset))
