"""Workers seed the generator of their dataset from torch."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)


class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.from_numpy(self.rng.normal(i, 1, 3)).float() / 20, torch.tensor(i % 2)


def init(worker):
    torch.utils.data.get_worker_info().dataset.rng = np.random.default_rng(torch.initial_seed() % 2**32)


model = nn.Linear(3, 2)
dbg = nbdebug.Debugger(
    model,
    DataLoader(Noisy(), batch_size=5, num_workers=2, worker_init_fn=init),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
