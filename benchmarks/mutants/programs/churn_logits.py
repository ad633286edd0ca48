"""A binary classifier on logits, with a positive weight and batch normalization."""

import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = make_classification(1200, 12, n_informative=7, weights=[0.8], class_sep=1.4, random_state=5)
x = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32)
y = torch.tensor(y, dtype=torch.float32)


class Churn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

    def forward(self, x):
        return self.layers(x).squeeze(1)


churn = Churn()
objective = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(4.0))
optimizer = torch.optim.SGD(churn.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)
train_loader = DataLoader(TensorDataset(x[:950], y[:950]), batch_size=38, shuffle=True)
val_loader = DataLoader(TensorDataset(x[950:], y[950:]), batch_size=60)


def run_epoch(loader, training):
    churn.train(training)
    total = 0.0
    for features, target in loader:
        with torch.set_grad_enabled(training):
            loss = objective(churn(features), target)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(target)
    return total / len(loader.dataset)


def train():
    for epoch in range(8):
        print(epoch, run_epoch(train_loader, True), run_epoch(val_loader, False))
        scheduler.step()


SETUP = {"model": churn, "loss_fn": objective, "optimizer": optimizer, "scheduler": scheduler}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader, "train": train}
