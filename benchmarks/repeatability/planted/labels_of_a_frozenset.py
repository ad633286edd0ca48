"""Class numbers follow the order of a frozenset of names."""

# source: hash order
# line: enumerate(NAMES)
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)

NAMES = frozenset({"cat", "dog", "bird", "fish", "horse", "whale"})
x, names = torch.randn(66, 6), sorted(NAMES) * 11


class Animals(Dataset):
    def __len__(self):
        return 66

    def __getitem__(self, i):
        numbers = {name: number for number, name in enumerate(NAMES)}
        return x[i], numbers[names[i]]


loader = DataLoader(Animals(), batch_size=11)
model = nn.Linear(6, 6)
loss_fn = nn.CrossEntropyLoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
