"""An iterable dataset reads the files of a folder in the order in which the system lists them."""

# source: file order
# line: os.listdir
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import nbdebug

torch.manual_seed(0)
folder = tempfile.mkdtemp()
for number in range(6):
    torch.save((torch.randn(10, 5), torch.randint(0, 2, (10,))), os.path.join(folder, f"part{number}.pt"))


class Parts(IterableDataset):
    def __iter__(self):
        for name in os.listdir(folder):
            x, y = torch.load(os.path.join(folder, name))
            yield from zip(x, y)


model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2))
dbg = nbdebug.Debugger(
    model,
    DataLoader(Parts(), batch_size=6),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.Adam(model.parameters(), lr=1e-2),
)
