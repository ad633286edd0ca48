"""Crashes: worker processes of a loader that die or cannot be started."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "worker_killed",
        "the worker process of a loader ends in the middle of an epoch",
        kind="workers",
        style="custom_parts",
        source="GitHub issue, DataLoader worker (pid(s)) exited unexpectedly",
        program="""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        if index == 2:
            os._exit(1)
        return torch.full((4,), float(index)), index % 2


torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for x, y in DataLoader(Archive(), batch_size=4, num_workers=1):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("            os._exit(1)\n", "            index = 12\n"),),
        line=("os._exit(1)", "for x, y in DataLoader("),
        says=(
            "worker",
            "num_workers=0|died|main process|killed|code 1|_exit",
        ),
    ),
    crash(
        "open_file_in_dataset",
        "a data set with an open file cannot be sent to a spawned worker",
        kind="workers",
        style="trainer",
        source="discuss.pytorch.org, cannot pickle _io.TextIOWrapper, h5py",
        program="""
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PATH = Path(tempfile.mkdtemp()) / "numbers.txt"
PATH.write_text(" ".join(str(i) for i in range(60)))


class Numbers(Dataset):
    def __init__(self, path):
        self.file = path.open()
        self.numbers = [float(word) for word in self.file.read().split()]

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, i):
        return torch.tensor([self.numbers[i] / 60]), torch.tensor([self.numbers[i] / 30])


class Trainer:
    def __init__(self, workers):
        context = "spawn" if workers else None
        self.loader = DataLoader(Numbers(PATH), 20, num_workers=workers, multiprocessing_context=context)
        self.model = nn.Linear(1, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Trainer(workers=1).fit()
""",
        repair=(("Trainer(workers=1)", "Trainer(workers=0)"),),
        line=("Trainer(workers=1)", "self.file = path.open()", "self.loader = DataLoader(", "for x, y in self.loader"),
        says=("file|pickle", "worker"),
    ),
)
