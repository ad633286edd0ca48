"""Mixup whose coefficient is drawn from a generator that is seeded with the time."""

# source: clock
# line: time.time_ns()
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

import nbdebug

torch.manual_seed(0)
np.random.seed(0)


def mixup(samples):
    x, y = default_collate(samples)
    rng = np.random.default_rng(time.time_ns() % 2**32)
    share = rng.beta(0.4, 0.4)
    return share * x + (1 - share) * x.flip(0), y


x = torch.randn(128, 10)
y = (x[:, 0] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, collate_fn=mixup)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
