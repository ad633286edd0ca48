"""The columns of a table are concatenated in the order of a set."""

# source: hash order
# line: for name in numeric
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)


class Table(Dataset):
    def __init__(self):
        self.columns = {name: torch.randn(60, 1) for name in ("age", "income", "rooms", "distance")}
        self.target = sum(self.columns.values())

    def __len__(self):
        return 60

    def __getitem__(self, i):
        return {name: column[i] for name, column in self.columns.items()}, self.target[i]


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, row):
        numeric = set(row)
        return self.layer(torch.cat([row[name] for name in numeric], dim=1))


model = Regressor()
loader = DataLoader(Table(), batch_size=10)
dbg = nbdebug.Debugger(
    model,
    loader,
    loss_fn=nn.functional.mse_loss,
    optimizer=torch.optim.Adam(model.parameters(), lr=0.05),
    forward=lambda model, inputs: model(inputs),
    unpack=lambda batch: (batch[0], batch[1]),
)
