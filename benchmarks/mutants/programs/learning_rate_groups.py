"""A backbone and a head with learning rates of their own."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 8 - 1, dtype=torch.float32), torch.tensor(y)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 32), nn.GELU())

    def forward(self, x):
        return self.layers(x)


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        features = self.backbone(x)
        return self.head(features)


model = Whole()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(
    [
        {"params": model.backbone.parameters(), "lr": 1e-3},
        {"params": model.head.parameters(), "lr": 5e-3, "weight_decay": 0.0},
    ],
    weight_decay=0.01,
)
train_loader = DataLoader(TensorDataset(x[:1300], y[:1300]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(x[1300:], y[1300:]), batch_size=100)


def train():
    for epoch in range(8):
        model.train()
        for inputs, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), target)
            loss.backward()
            optimizer.step()
        model.eval()
        correct = 0
        with torch.inference_mode():
            for inputs, target in val_loader:
                correct += (model(inputs).argmax(1) == target).sum().item()
        print(epoch, correct / len(val_loader.dataset))
