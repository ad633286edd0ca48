"""The noise of a step is seeded by a count of the module."""

# source: variable
# line: next(counter)
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
counter = itertools.count()


def add_noise(x):
    generator = torch.Generator().manual_seed(next(counter))
    return x + 0.1 * torch.randn(x.shape, generator=generator)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, 20), nn.Tanh(), nn.Linear(20, 9))

    def forward(self, x):
        return self.body(add_noise(x))


x = torch.randn(50, 9)
model = Denoiser()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x), batch_size=10),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
)
