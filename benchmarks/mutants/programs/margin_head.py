"""Digits by an angular margin: the loss is a module with the directions of the classes as weights."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

values, labels = load_digits(return_X_y=True)
values, labels = torch.tensor(values / 8 - 1, dtype=torch.float32), torch.tensor(labels)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))

    def forward(self, x):
        return F.normalize(self.layers(x), dim=1)


class AngularMargin(nn.Module):
    def __init__(self, width, classes, margin=0.2, scale=12.0):
        super().__init__()
        self.directions = nn.Parameter(0.1 * torch.randn(classes, width))
        self.margin, self.scale = margin, scale

    def forward(self, embedding, label):
        cosine = embedding @ F.normalize(self.directions, dim=1).t()
        margin = self.margin * F.one_hot(label, len(self.directions))
        return F.cross_entropy(self.scale * (cosine - margin), label)


embedder, criterion = Embedder(), AngularMargin(24, 10)
optimizer = torch.optim.Adam([*embedder.parameters(), *criterion.parameters()], lr=3e-3)
train_loader = DataLoader(TensorDataset(values[:1400], labels[:1400]), batch_size=70, shuffle=True)
val_loader = DataLoader(TensorDataset(values[1400:], labels[1400:]), batch_size=100)


def train():
    for epoch in range(6):
        for x, label in train_loader:
            optimizer.zero_grad()
            loss = criterion(embedder(x), label)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            directions = F.normalize(criterion.directions, dim=1)
            hits = sum(((embedder(x) @ directions.t()).argmax(1) == y).sum().item() for x, y in val_loader)
        print(epoch, hits / len(val_loader.dataset))


SETUP = {"model": embedder, "loss_fn": criterion, "optimizer": optimizer, "train": train}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader}
