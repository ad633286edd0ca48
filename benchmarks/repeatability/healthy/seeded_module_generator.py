"""An augmentation draws from a seeded generator of the module."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)
rng = np.random.default_rng(7)
generator = torch.Generator().manual_seed(3)


def collate(samples):
    x = torch.stack(samples)
    noisy = x + torch.from_numpy(rng.normal(0, 0.1, tuple(x.shape))).float()
    return noisy + 0.01 * torch.randn(x.shape, generator=generator), x


x = torch.randn(64, 4)
model = nn.Linear(4, 4)
dbg = nbdebug.Debugger(
    model,
    DataLoader(list(x), batch_size=8, collate_fn=collate, shuffle=True),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
