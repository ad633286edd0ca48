"""A setup whose memory grows with the batch size."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup


def wide_network_setup() -> Setup:
    """A network whose activations need more memory than its weights, trained with momentum on 256 samples."""
    torch.manual_seed(0)
    x = torch.randn(256, 16)
    model = nn.Sequential(nn.Linear(16, 512), nn.Tanh(), nn.Linear(512, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32, shuffle=True)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))
