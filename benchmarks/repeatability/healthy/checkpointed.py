"""Activation checkpoints with dropout."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.Dropout(0.3), nn.ReLU())
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=False))


x = torch.randn(64, 6)
model = Net()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=8, shuffle=True),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.Adam(model.parameters()),
)
