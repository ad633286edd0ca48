# ward: speed
# title: The slow radio
# story: An observatory classifies radio signals by their spectrum. The raw signals are in memory, and the network is small.
# complaint: An epoch takes seconds, and the processor is busy all the time, but hardly ever with the network.
# codes: P801
# hint: How long does a step wait for its batch?
# hint: dbg.profile(train) measures the phases of a step and the line that costs most.
# hint: The line that sets train_set: each spectrum is computed again in each epoch. list() computes all of them once.
# right: train_set, val_set = list(Signals(signals[:112], labels[:112])), list(Signals(signals[112:], labels[112:]))
# wrong: train_set, val_set = Signals(signals[:112], labels[:112]), Signals(signals[112:], labels[112:])
# %%
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(48)
labels = rng.integers(0, 3, 160)
moments = np.arange(1024)
tone = np.array([0.05, 0.11, 0.23])[labels][:, None] * rng.uniform(0.9, 1.1, (160, 1))
signals = np.sin(2 * np.pi * tone * moments) + rng.normal(0, 2, (160, 1024))


def spectrum(signal, width=16):
    windows = np.lib.stride_tricks.sliding_window_view(signal, 256)[::16] * np.hanning(256)
    power = np.abs(np.fft.rfft(windows, axis=1)) ** 2
    bands = power[:, 1:].reshape(len(windows), width, -1).mean(axis=(0, 2))
    return torch.tensor(np.log(bands) - np.log(bands).mean(), dtype=torch.float32)


class Signals(Dataset):
    def __init__(self, signals, labels):
        self.signals, self.labels = signals, torch.tensor(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return spectrum(self.signals[index]), self.labels[index]


train_set, val_set = list(Signals(signals[:112], labels[:112])), list(Signals(signals[112:], labels[112:]))
train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
val_loader = DataLoader(val_set, batch_size=48)
# %%
torch.manual_seed(48)
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)


def train():
    for epoch in range(4):
        for signal, label in train_loader:
            optimizer.zero_grad()
            loss_fn(model(signal), label).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        signal, label = next(iter(val_loader))
        return (model(signal).argmax(1) == label).float().mean().item()
