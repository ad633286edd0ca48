"""A sampler shuffles with Python's random; torch and NumPy are seeded."""

# source: random
# line: random.shuffle
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

import nbdebug

np.random.seed(1)
torch.manual_seed(1)
torch.cuda.manual_seed_all(1)


class Bucketed(Sampler):
    def __init__(self, lengths, size):
        self.lengths, self.size = lengths, size

    def __len__(self):
        return -(-len(self.lengths) // self.size)

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)
        batches = [order[i : i + self.size] for i in range(0, len(order), self.size)]
        random.shuffle(batches)
        yield from batches


x = torch.randn(70, 6)
lengths = np.random.randint(1, 40, 70).tolist()
loader = DataLoader(TensorDataset(x, x[:, :1]), batch_sampler=Bucketed(lengths, 7))
model = nn.Sequential(nn.Linear(6, 6), nn.SiLU(), nn.Linear(6, 1))
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters()))
