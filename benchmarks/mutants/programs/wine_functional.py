"""A network written with functional calls and a list of weight tensors, trained by the optimizer on these."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

features, classes = load_wine(return_X_y=True)
features = (features - features.mean(axis=0)) / features.std(axis=0)
parts = train_test_split(features, classes, test_size=0.3, random_state=0, stratify=classes)
x_train, x_val = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
y_train, y_val = (torch.tensor(part) for part in parts[2:])


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(20, 13) / 13**0.5)
        self.b1 = nn.Parameter(torch.zeros(20))
        self.w2 = nn.Parameter(torch.randn(3, 20) / 20**0.5)
        self.b2 = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        hidden = F.relu(F.linear(x, self.w1, self.b1))
        hidden = F.dropout(hidden, 0.1, training=self.training)
        return F.linear(hidden, self.w2, self.b2)


model = Functional()
loss_fn = F.cross_entropy
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=16, shuffle=True)
val_loader = DataLoader(TensorDataset(x_val, y_val), batch_size=32)


def train():
    for epoch in range(15):
        model.train()
        for x, y in train_loader:
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader) / len(val_loader.dataset)
        print(f"{epoch} {accuracy:.3f}")
