"""Each crop starts at a position that the module secrets chooses."""

# source: entropy
# line: secrets.
import random
import secrets

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

random.seed(0)
torch.manual_seed(0)


class Crops(Dataset):
    def __init__(self, series, length):
        self.series, self.length = series, length

    def __len__(self):
        return 50

    def __getitem__(self, _):
        start = secrets.randbelow(len(self.series) - self.length - 1)
        window = self.series[start : start + self.length]
        return window.unsqueeze(1), self.series[start + self.length]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 6, batch_first=True)
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        _, h = self.rnn(x)
        return self.head(h[-1]).squeeze(-1)


series = torch.sin(torch.arange(300) / 7.0)
model = Forecaster()
dbg = nbdebug.Debugger(
    model,
    DataLoader(Crops(series, 12), batch_size=10),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
)
