"""A generator of batches that can be read once."""

import torch
from torch import nn

import nbdebug

torch.manual_seed(0)


def stream():
    for _ in range(40):
        x = torch.randn(8, 4)
        yield x, x.sum(1, keepdim=True)


model = nn.Linear(4, 1)
dbg = nbdebug.Debugger(model, stream(), loss_fn=nn.MSELoss(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
