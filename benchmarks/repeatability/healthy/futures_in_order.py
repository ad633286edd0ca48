"""Threads prepare rows; results are taken in the order of submission."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)
pool = ThreadPoolExecutor(3)


def collate(samples):
    return torch.stack(list(pool.map(torch.sigmoid, samples))), torch.stack(samples)


x = torch.randn(64, 4)
model = nn.Linear(4, 4)
dbg = nbdebug.Debugger(
    model,
    DataLoader(list(x), batch_size=8, collate_fn=collate),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
