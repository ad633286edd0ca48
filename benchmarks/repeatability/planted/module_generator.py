"""An augmentation draws from a generator of the module, which has no seed."""

# source: generator rng
# line: rng.
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)
np.random.seed(0)
rng = np.random.default_rng()


def jitter(sample):
    x, y = sample
    return x * float(rng.uniform(0.9, 1.1)), y


class Mapped(torch.utils.data.Dataset):
    def __init__(self, samples, function):
        self.samples, self.function = samples, function

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.function(self.samples[i])


samples = [(torch.randn(4), torch.tensor([float(i % 3)])) for i in range(40)]
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
dbg = nbdebug.Debugger(
    model,
    DataLoader(Mapped(samples, jitter), batch_size=8),
    loss_fn=nn.SmoothL1Loss(),
    optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
)
