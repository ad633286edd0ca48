"""Crashes: data sets, collate functions, splits, samplers and what is done with their results."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "texts_of_unequal_length",
        "the data set gives texts of their own lengths, and the loader stacks them",
        kind="loading",
        style="trainer",
        source="Stack Overflow, stack expects each tensor to be equal size, DataLoader",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Names(Dataset):
    names = ["ada", "grace", "alan", "edsger", "barbara", "donald", "tim", "niklaus"]

    def __init__(self, longest=8):
        self.longest = longest

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        letters = [ord(letter) - 96 for letter in self.names[i]]
        return torch.tensor(letters), i % 2


class Trainer:
    def __init__(self, dataset):
        self.loader = DataLoader(dataset, batch_size=4, shuffle=True)
        self.model = nn.Sequential(nn.EmbeddingBag(27, 8, padding_idx=0), nn.Linear(8, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self, epochs):
        for _ in range(epochs):
            for letters, labels in self.loader:
                loss = nn.functional.cross_entropy(self.model(letters), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


torch.manual_seed(0)
Trainer(Names()).fit(2)
""",
        repair=(
            (
                "return torch.tensor(letters), i % 2",
                "return torch.tensor(letters + [0] * (self.longest - len(letters))), i % 2",
            ),
        ),
        line=(
            "return torch.tensor(letters), i % 2",
            "self.loader = DataLoader(dataset, batch_size=4, shuffle=True)",
            "letters = [ord(",
        ),
        says=("pad", "names|collate|__getitem__|length"),
    ),
    crash(
        "shuffled_stream",
        "a stream without length is to be shuffled by the loader",
        kind="loading",
        style="script",
        source="GitHub issue, DataLoader with IterableDataset: expected unspecified shuffle option",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.n):
            x = torch.rand(3, generator=generator)
            yield x, (x.sum() > 1.5).float()


torch.manual_seed(0)
loaders = {name: DataLoader(Stream(40, seed), batch_size=8, shuffle=name == "train")
           for seed, name in enumerate(("valid", "train"))}
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for x, y in loaders["train"]:
    loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=((', shuffle=name == "train")', ")"),),
        line=('shuffle=name == "train")', "class Stream(IterableDataset):"),
        says=(
            "stream",
            "shuffle",
            "remove|drop|without|leave out|delete|omit|inside __iter__|in __iter__|map-style|buffer",
        ),
    ),
)
