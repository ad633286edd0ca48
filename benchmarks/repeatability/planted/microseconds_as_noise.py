"""The augmentation depends on the microsecond of the day."""

# source: clock
# line: datetime.datetime.now()
import datetime

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)


class Jittered(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 6)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        shift = datetime.datetime.now().microsecond / 1e6
        return self.x[i] + shift, self.x[i, :1]


loader = DataLoader(Jittered(), batch_size=16)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
