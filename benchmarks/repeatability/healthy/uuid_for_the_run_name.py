"""A random name of the run and the process number go into a log only."""

import os
import uuid

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
records = []


def loss_fn(out, y):
    value = nn.functional.mse_loss(out, y)
    records.append({"run": uuid.uuid4().hex, "process": os.getpid(), "loss": float(value)})
    return value


x = torch.randn(64, 4)
model = nn.Linear(4, 4)
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x), batch_size=8),
    loss_fn=loss_fn,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
