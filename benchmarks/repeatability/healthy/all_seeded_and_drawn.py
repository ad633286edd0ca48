"""Python, NumPy and torch are seeded and all drawn from."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)


class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        x = torch.full((3,), float(i)) + torch.randn(3) + float(np.random.rand())
        return x * random.choice([1, -1]), torch.tensor(i % 2)


model = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.4), nn.ReLU(), nn.Linear(6, 2))
dbg = nbdebug.Debugger(
    model,
    DataLoader(Augmented(), batch_size=8, shuffle=True),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.Adam(model.parameters()),
)
