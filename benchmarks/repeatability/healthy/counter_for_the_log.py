"""Global and class counters that no result depends on."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
step = 0
SEEN = {"batches": 0, "names": set()}


class Counted(nn.Module):
    forwards = 0

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        Counted.forwards += 1
        return self.layer(x)


def loss_fn(out, y):
    global step
    step += 1
    SEEN["batches"] += 1
    SEEN["names"].add("loss")
    return nn.functional.cross_entropy(out, y)


x = torch.randn(60, 3)
model = Counted()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x.argmax(1)), batch_size=10),
    loss_fn=loss_fn,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
