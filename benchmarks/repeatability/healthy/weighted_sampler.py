"""A weighted sampler draws from torch's seeded generator."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import nbdebug

torch.manual_seed(0)

x = torch.randn(80, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, sampler=WeightedRandomSampler(torch.rand(80), 80))
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
