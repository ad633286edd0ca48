"""Imbalanced classes with class weights, and a scheduler made by warm-up and decay in sequence."""

import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

x, y = make_classification(
    1500, 14, n_informative=9, n_classes=3, weights=[0.6, 0.25, 0.15], class_sep=1.5, random_state=6
)
x, y = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y)
weights = len(y) / (3 * torch.bincount(y).float())
train_loader = DataLoader(TensorDataset(x[:1200], y[:1200]), batch_size=60, shuffle=True)
val_loader = DataLoader(TensorDataset(x[1200:], y[1200:]), batch_size=100)
model = nn.Sequential(nn.Linear(14, 40), nn.SiLU(), nn.Linear(40, 40), nn.SiLU(), nn.Linear(40, 3))
loss_fn = nn.CrossEntropyLoss(weight=weights)
optimizer = torch.optim.RAdam(model.parameters(), lr=6e-3)
warm_up = lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=2)
decay = lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
scheduler = lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[2])


def train():
    for epoch in range(10):
        model.train()
        for features, label in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(features), label)
            loss.backward()
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            pairs = [(model(features).argmax(1), label) for features, label in val_loader]
        predicted, true = (torch.cat(column) for column in zip(*pairs, strict=True))
        recall = [(predicted[true == c] == c).float().mean().item() for c in range(3)]
        print(epoch, sum(recall) / 3)
