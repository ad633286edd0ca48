"""Hard samples are mined until a few milliseconds have passed."""

# source: clock
# line: perf_counter()
from time import perf_counter

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


def mined_loss(out, y):
    losses = nn.functional.binary_cross_entropy_with_logits(out.squeeze(1), y, reduction="none")
    chosen, started = losses.mean(), perf_counter()
    for row in losses.sort(descending=True).values:
        if perf_counter() - started > 1e-4:
            break
        chosen = chosen + row / len(losses)
    return chosen


x = torch.randn(256, 20)
y = (x[:, :3].sum(1) > 0).float()
model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 1))
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, y), batch_size=64),
    loss_fn=mined_loss,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
)
