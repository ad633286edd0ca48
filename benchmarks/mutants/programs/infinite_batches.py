"""Steps are counted, and batches come from an infinite iterator."""

from itertools import islice

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data, target = load_digits(return_X_y=True)
data, target = torch.tensor(data / 16 - 0.3, dtype=torch.float32) / 0.37, torch.tensor(target)
train_loader = DataLoader(TensorDataset(data[:1400], target[:1400]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(data[1400:], target[1400:]), batch_size=100)


def forever(loader):
    while True:
        yield from loader


network = nn.Sequential(nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 32), nn.ELU(), nn.Linear(32, 10))
criterion = nn.CrossEntropyLoss()
optim = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)


def train(steps=280):
    running = 0.0
    for step, (x, y) in enumerate(islice(forever(train_loader), steps), start=1):
        optim.zero_grad()
        loss = criterion(network(x), y)
        loss.backward()
        optim.step()
        running += loss.item()
        if step % 70 == 0:
            with torch.no_grad():
                hits = sum((network(x).argmax(1) == y).sum().item() for x, y in val_loader)
            print(step, running / step, hits / len(val_loader.dataset))


SETUP = {"model": network, "loss_fn": criterion, "optimizer": optim}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader, "train": train}
