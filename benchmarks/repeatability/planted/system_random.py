"""Samples are flipped by a coin of the operating system."""

# source: entropy
# line: COIN.random()
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)

COIN = random.SystemRandom()


class Flipped(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 6)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        sign = 1 if COIN.random() < 0.5 else -1
        return sign * self.x[i], self.x[i, :1]


loader = DataLoader(Flipped(), batch_size=16)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
