"""L-BFGS with its closure."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
x = torch.randn(64, 3)
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x.prod(1, keepdim=True)), batch_size=32),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.LBFGS(model.parameters(), max_iter=4),
)
