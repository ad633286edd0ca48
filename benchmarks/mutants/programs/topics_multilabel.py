"""A classifier of several labels for each sample, over bags of words."""

import torch
from sklearn.datasets import make_multilabel_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

counts, labels = make_multilabel_classification(1000, 40, n_classes=6, n_labels=2, length=60, random_state=0)
counts = torch.tensor((counts - counts.mean(0)) / (counts.std(0) + 1e-6), dtype=torch.float32)
labels = torch.tensor(labels, dtype=torch.float32)
train_loader = DataLoader(TensorDataset(counts[:800], labels[:800]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(counts[800:], labels[800:]), batch_size=100)

model = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 6))
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def train():
    for epoch in range(10):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum(((model(x) > 0).float() == y).float().mean(1).sum().item() for x, y in val_loader)
        print(f"epoch {epoch}: {right / len(val_loader.dataset):.3f}")
