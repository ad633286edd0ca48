"""The weight of a penalty follows the second of the minute."""

# source: clock
# line: datetime.now()
from datetime import datetime

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


def seed_everything(seed):
    import random

    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


seed_everything(11)


class Criterion(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.parameters_of_net = list(net.parameters())

    def forward(self, out, y):
        penalty = sum(p.pow(2).sum() for p in self.parameters_of_net)
        return nn.functional.cross_entropy(out, y) + 1e-4 * datetime.now().second * penalty


net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
x = torch.randn(72, 8)
y = x[:, :4].argmax(1)
dbg = nbdebug.Debugger(
    net,
    DataLoader(TensorDataset(x, y), 12, shuffle=True),
    loss_fn=Criterion(net),
    optimizer=torch.optim.Adam(net.parameters(), 1e-2),
)
