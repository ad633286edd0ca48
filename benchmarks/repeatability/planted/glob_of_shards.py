"""Shards are concatenated in the order in which the disk lists them."""

# source: file order
# line: glob
import glob
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(0)

folder = tempfile.mkdtemp()
for number in (3, 11, 7, 2, 9, 5):
    torch.save(torch.full((8, 6), float(number)), f"{folder}/shard{number}.pt")


class Shards(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        files = glob.glob(f"{folder}/*.pt")
        row = torch.load(files[i // 8])[i % 8]
        return row / 10, row[:1]


loader = DataLoader(Shards(), batch_size=12)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()

dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
