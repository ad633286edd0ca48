"""A NumPy array without initial values is filled as a whole."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


def stack(items):
    rows = np.empty((len(items), 6), np.float32)
    for row, (x, _) in zip(rows, items, strict=True):
        row[:] = x
    return torch.from_numpy(rows), torch.stack([y for _, y in items])


x = torch.randn(64, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, collate_fn=stack)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
