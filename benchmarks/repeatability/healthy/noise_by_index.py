"""Noise comes from a generator that the index seeds."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)


class Noisy(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 6)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return self.x[i] * random.Random(i).uniform(0.9, 1.1), self.x[i, :1]


loader = DataLoader(Noisy(), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
