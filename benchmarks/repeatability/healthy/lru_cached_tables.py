"""A cached function that always returns the same."""

import functools
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


@functools.lru_cache
def positions(length, width):
    t = torch.arange(length).unsqueeze(1) * torch.exp(torch.arange(width) * -math.log(100.0) / width)
    return torch.sin(t)


class Positional(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        return self.out((x + positions(x.shape[1], x.shape[2])).mean(1))


x = torch.randn(40, 5, 6)
model = Positional()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, (x.sum((1, 2)) > 0).long()), batch_size=8),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
