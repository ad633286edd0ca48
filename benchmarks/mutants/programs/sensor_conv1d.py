"""One-dimensional convolutions over three sensors that recognize an activity."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(4)


class Activities(Dataset):
    def __init__(self, count, augment):
        self.labels = rng.integers(0, 4, count)
        time = np.arange(32) / 32
        self.signals = np.zeros((count, 3, 32), dtype=np.float32)
        for row, label in enumerate(self.labels):
            shift = rng.uniform(0, 2 * np.pi)
            for channel in range(3):
                wave = np.sin(2 * np.pi * (label + 1 + channel) * time + shift)
                self.signals[row, channel] = wave + 0.4 * rng.standard_normal(32)
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        signal = torch.from_numpy(self.signals[index])
        if self.augment:
            signal = signal + 0.05 * torch.randn(3, 1)
        return signal, int(self.labels[index])


train_loader = DataLoader(Activities(640, augment=True), batch_size=32, shuffle=True)
val_loader = DataLoader(Activities(200, augment=False), batch_size=50)
model = nn.Sequential(
    nn.Conv1d(3, 16, 5, padding=2),
    nn.BatchNorm1d(16),
    nn.ReLU(),
    nn.MaxPool1d(2),
    nn.Conv1d(16, 32, 5, padding=2),
    nn.BatchNorm1d(32),
    nn.ReLU(),
    nn.AdaptiveAvgPool1d(1),
    nn.Flatten(),
    nn.Dropout(0.3),
    nn.Linear(32, 4),
)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
record = {"loss": [], "accuracy": []}


def one_epoch():
    model.train()
    total = 0.0
    for signal, label in train_loader:
        optimizer.zero_grad()
        loss = loss_fn(model(signal), label)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(label)
    record["loss"].append(total / len(train_loader.dataset))


def validate():
    model.eval()
    correct = 0
    with torch.no_grad():
        for signal, label in val_loader:
            correct += int((model(signal).argmax(1) == label).sum())
    record["accuracy"].append(correct / len(val_loader.dataset))


def train():
    for _ in range(6):
        one_epoch()
        validate()
