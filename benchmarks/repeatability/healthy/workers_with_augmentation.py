"""Workers augment with torch, Python and NumPy, which torch seeds in each worker."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)


class Jittered(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(48, 5)

    def __len__(self):
        return 48

    def __getitem__(self, i):
        return self.x[i] + torch.randn(5) * random.random() * float(np.random.rand()), self.x[i, :1]


model = nn.Linear(5, 1)
dbg = nbdebug.Debugger(
    model,
    DataLoader(Jittered(), batch_size=6, shuffle=True, num_workers=2),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
