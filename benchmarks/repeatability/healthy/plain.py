"""A perceptron, seeded."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
x = torch.randn(64, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x[:, :1]), batch_size=8, shuffle=True),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.Adam(model.parameters()),
)
