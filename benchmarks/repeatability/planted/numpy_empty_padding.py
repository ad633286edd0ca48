"""Padding is memory that NumPy has not initialized."""

# source: uninitialized memory
# line: np.empty
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


def pad(items):
    rows = np.empty((len(items), 6), np.float32)
    for row, (x, _) in zip(rows, items, strict=True):
        row[:4] = x
    rows[:, 4:] = np.nan_to_num(rows[:, 4:], posinf=0, neginf=0).clip(-1, 1)
    return torch.from_numpy(rows), torch.stack([y for _, y in items])


x = torch.randn(64, 4)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, collate_fn=pad)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
