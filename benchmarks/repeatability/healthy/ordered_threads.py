"""Threads of a pool return their results in order."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)

POOL = ThreadPoolExecutor(2)


def stack(items):
    rows = list(POOL.map(lambda item: item[0] * 2, items))
    return torch.stack(rows), torch.stack([y for _, y in items])


x = torch.randn(64, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, shuffle=True, collate_fn=stack)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
