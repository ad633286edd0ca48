"""A helper of another name seeds everything."""

import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)


def seed_everything(seed):
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


seed_everything(3)


class Flip(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        x = torch.arange(4.0) + i
        return (x.flip(0) if random.random() > 0.5 else x) / 30, torch.tensor([float(i)]) / 30


model = nn.Linear(4, 1)
dbg = nbdebug.Debugger(
    model,
    DataLoader(Flip(), batch_size=8),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
)
