"""The loader yields batches as soon as a worker has one."""

# source: batch order of the workers
# line:
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)


class Slow(Dataset):
    def __init__(self):
        self.x = torch.randn(60, 3)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        time.sleep(0.02 if i % 10 < 5 and i % 3 == 0 else 0.0)
        return self.x[i], self.x[i].sum().reshape(1)


model = nn.Linear(3, 1)
loader = DataLoader(Slow(), batch_size=5, num_workers=3, in_order=False)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.MSELoss(), optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
