"""A dataset adds noise from its own generator, which has no seed."""

# source: generator
# line: self.generator.normal()
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)


class Noisy(Dataset):
    def __init__(self, n=64):
        self.x = np.linspace(-1, 1, n, dtype=np.float32)
        self.generator = np.random.default_rng()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        y = np.sin(3 * self.x[i]) + 0.1 * self.generator.normal()
        return torch.tensor([self.x[i]]), torch.tensor([y], dtype=torch.float32)


model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
dbg = nbdebug.Debugger(
    model,
    DataLoader(Noisy(), batch_size=16, shuffle=True),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.RMSprop(model.parameters()),
)
