"""A model that returns a tuple: a class and a quantity, with a weighted sum of two losses."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 8 - 1, dtype=torch.float32), torch.tensor(labels)
ink = (images.mean(1) - images.mean()) / images.mean(1).std()


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
        self.digit, self.ink = nn.Linear(48, 10), nn.Linear(48, 1)

    def forward(self, x):
        features = self.trunk(x)
        return self.digit(features), self.ink(features).squeeze(1)


def total_loss(output, digit, ink):
    logits, amount = output
    return F.cross_entropy(logits, digit) + 0.5 * F.mse_loss(amount, ink)


model = TwoHeads()
loss_fn = total_loss
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
train_loader = DataLoader(TensorDataset(images[:1400], labels[:1400], ink[:1400]), batch_size=70, shuffle=True)
val_loader = DataLoader(TensorDataset(images[1400:], labels[1400:], ink[1400:]), batch_size=100)


def train():
    for epoch in range(8):
        for x, digit, amount in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), digit, amount)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            hits = sum((model(x)[0].argmax(1) == digit).sum().item() for x, digit, _ in val_loader)
        print(epoch, hits / len(val_loader.dataset))
