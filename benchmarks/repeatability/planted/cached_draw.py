"""A cached function draws its noise at the first call only."""

# source: cache of offset
# line: offset(6)
import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)

x = torch.randn(80, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, shuffle=True)


@functools.lru_cache
def offset(size):
    return torch.randn(size) * 0.5


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, x):
        return self.layer(x + offset(6))


model = Shifted()
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
