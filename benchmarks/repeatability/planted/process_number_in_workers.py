"""Workers seed NumPy with their process number."""

# source: process number
# line: os.getpid()
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)
np.random.seed(0)


class Shifted(Dataset):
    def __init__(self):
        self.data = torch.randn(48, 9)

    def __len__(self):
        return 48

    def __getitem__(self, i):
        row = torch.roll(self.data[i], int(np.random.randint(0, 9)))
        return row, self.data[i].mean().reshape(1)


def seed_worker(worker_id):
    np.random.seed((os.getpid() + worker_id) % 2**32)


model = nn.Sequential(nn.Linear(9, 10), nn.ELU(), nn.Linear(10, 1))
loader = DataLoader(Shifted(), batch_size=8, num_workers=2, worker_init_fn=seed_worker)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.L1Loss(), optimizer=torch.optim.Adagrad(model.parameters()))
