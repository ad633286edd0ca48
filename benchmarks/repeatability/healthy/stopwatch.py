"""Times are measured and averaged, and change nothing."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)

x = torch.randn(80, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, shuffle=True)

TIMES = []


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, x):
        started = time.perf_counter()
        output = self.layer(x)
        TIMES.append(time.perf_counter() - started)
        return output


model = Timed()
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
