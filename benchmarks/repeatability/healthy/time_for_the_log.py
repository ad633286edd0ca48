"""The time is measured, but only for a log."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
LOG = []


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.seconds = 0.0

    def forward(self, x):
        start = time.perf_counter()
        out = self.layer(x)
        self.seconds += time.perf_counter() - start
        LOG.append((time.time(), self.seconds))
        return out


x = torch.randn(64, 4)
model = Timed()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=16),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
