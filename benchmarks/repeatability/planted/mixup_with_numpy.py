"""Mixup draws its share with NumPy in the collate function; only torch is seeded."""

# source: numpy.random
# line: np.random.beta
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


def mixup(items):
    x, y = (torch.stack(part) for part in zip(*items, strict=True))
    share = float(np.random.beta(0.4, 0.4))
    return share * x + (1 - share) * x.flip(0), share * y + (1 - share) * y.flip(0)


x = torch.randn(64, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, collate_fn=mixup)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
