"""Sets and hashes are used, but their order is not."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
FROZEN = {"scale", "shift"}


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift, self.other = (nn.Parameter(torch.ones(4)) for _ in range(3))
        self.names = {"scale", "other"}

    def forward(self, x):
        wanted = set(self.names) | {"shift"}
        for name in sorted(wanted):
            if name in FROZEN or hash(name) == hash("other"):
                x = x + getattr(self, name)
        total = sum(1 for _ in wanted)
        return x * total


x = torch.randn(64, 4)
model = Affine()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x), batch_size=8),
    loss_fn=nn.L1Loss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
