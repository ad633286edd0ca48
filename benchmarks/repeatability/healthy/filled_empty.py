"""torch.empty whose every element is written."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        out = torch.empty(len(x), 6)
        out[:, :3] = self.a(x)
        out[:, 3:] = self.b(x)
        noise = torch.empty_like(out).normal_()
        return out + 0.1 * noise


x = torch.randn(64, 4)
model = Mixer()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, torch.cat([x, x[:, :2]], 1)), batch_size=8),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
