"""The loss takes its weight from a generator that goes on."""

# source: variable
# line: next(WEIGHTS)
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)

x = torch.randn(80, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))


def decay():
    weight = 1.0
    while True:
        yield weight
        weight *= 0.99


WEIGHTS = decay()


def loss_fn(output, target):
    return next(WEIGHTS) * nn.functional.mse_loss(output, target)


dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
