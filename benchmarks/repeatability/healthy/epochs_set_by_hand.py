"""A sampler with set_epoch and a seed of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


class Seeded(torch.utils.data.Sampler):
    def __init__(self, n):
        self.n, self.epoch = n, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.n

    def __iter__(self):
        g = torch.Generator().manual_seed(100 + self.epoch)
        yield from torch.randperm(self.n, generator=g).tolist()


x = torch.randn(64, 4)
model = nn.Linear(4, 4)
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x), batch_size=8, sampler=Seeded(64)),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
