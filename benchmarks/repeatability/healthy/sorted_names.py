"""Class numbers follow the sorted names of a set."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)

NAMES = {"cat", "dog", "bird"}
numbers = {name: number for number, name in enumerate(sorted(NAMES))}
x, y = torch.randn(60, 6), torch.tensor([numbers[name] for name in sorted(NAMES) * 20])
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 3))
loss_fn = nn.CrossEntropyLoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
