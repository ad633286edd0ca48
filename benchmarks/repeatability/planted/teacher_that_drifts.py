"""A teacher outside the setup is averaged at each loss."""

# source: variable
# line: teacher
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)

x = torch.randn(80, 6)
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))

teacher = nn.Linear(6, 1)


def loss_fn(output, target):
    with torch.no_grad():
        teacher.bias += 0.01 * output.mean()
    return nn.functional.mse_loss(output, target + teacher.bias)


dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
