"""A binary classifier with one output and a sigmoid before binary cross-entropy."""

import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = make_classification(1000, 16, n_informative=8, class_sep=1.2, weights=[0.7], random_state=8)
x = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32)
y = torch.tensor(y, dtype=torch.float32).unsqueeze(1)
train_loader = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=100)
model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1), nn.Sigmoid())
loss_fn = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
accuracies = []


def train():
    for _ in range(8):
        model.train()
        for features, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(features), target)
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for features, target in val_loader:
                right += ((model(features) > 0.5).float() == target).sum().item()
        accuracies.append(right / len(val_loader.dataset))
