"""Dropout written by hand with NumPy; only torch is seeded."""

# source: numpy.random
# line: np.random.rand
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 32)
        self.second = nn.Linear(32, 1)

    def forward(self, x):
        h = torch.relu(self.first(x))
        if self.training:
            mask = np.random.rand(*h.shape) > 0.3
            h = h * torch.from_numpy(mask).float() / 0.7
        return self.second(h).squeeze(1)


x = torch.randn(100, 6)
model = Net()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x.sum(1)), batch_size=20, shuffle=True),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
)
