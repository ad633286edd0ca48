"""Batches are dictionaries, and the loop takes them apart."""

import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import DataLoader, Dataset

values, species = load_iris(return_X_y=True)
values = torch.tensor((values - values.mean(0)) / values.std(0), dtype=torch.float32)
species = torch.tensor(species)
order = torch.randperm(150, generator=torch.Generator().manual_seed(2))


class Flowers(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        row = self.rows[k]
        return {"features": values[row], "label": species[row]}


class FlowerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, features):
        return self.head(torch.tanh(self.hidden(features)))


model = FlowerNet()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
train_loader = DataLoader(Flowers(order[:110]), batch_size=10, shuffle=True)
val_loader = DataLoader(Flowers(order[110:]), batch_size=40)


def train():
    for _ in range(20):
        for batch in train_loader:
            logits = model(batch["features"])
            loss = loss_fn(logits, batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            hits = [(model(b["features"]).argmax(1) == b["label"]).float().mean().item() for b in val_loader]
        print(sum(hits) / len(hits))


def score(trained):
    return sum(float(loss_fn(trained(b["features"]), b["label"])) for b in val_loader)
