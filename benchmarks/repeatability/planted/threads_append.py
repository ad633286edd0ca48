"""Threads append their part of a batch to a list as they finish."""

# source: Python threads
# line: start()
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)
rows = [torch.randn(3) for _ in range(36)]


def collate(samples):
    ready = []

    def prepare(sample):
        time.sleep(float(sample.abs()[0]) * 2e-3)
        ready.append(sample)

    threads = [threading.Thread(target=prepare, args=(sample,)) for sample in samples]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    x = torch.stack(ready)
    return x, x.prod(1, keepdim=True) * torch.arange(len(x)).unsqueeze(1)


model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
dbg = nbdebug.Debugger(
    model,
    DataLoader(rows, batch_size=6, collate_fn=collate),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.Adam(model.parameters()),
)
