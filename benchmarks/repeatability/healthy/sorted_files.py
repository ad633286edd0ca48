"""Files of a folder are read in sorted order."""

import glob
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(0)
folder = tempfile.mkdtemp()
for i in range(5):
    torch.save(torch.randn(8, 4), os.path.join(folder, f"{i}.pt"))


class Files(torch.utils.data.IterableDataset):
    def __iter__(self):
        for path in sorted(glob.glob(os.path.join(folder, "*.pt"))):
            for row in torch.load(path):
                yield row[:3], row[3:]


model = nn.Linear(3, 1)
dbg = nbdebug.Debugger(
    model,
    DataLoader(Files(), batch_size=8),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
