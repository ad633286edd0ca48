"""Crashes: data sets, collate functions, splits, samplers and what is done with their results."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "broken_files_are_none",
        "a file that cannot be read becomes None in the batch",
        kind="loading",
        style="lightning_like",
        source="Stack Overflow, default_collate: batch must contain tensors, found NoneType",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    def __init__(self, n=20):
        self.files = [torch.full((6,), float("nan")) if i == 13 else torch.randn(6) for i in range(n)]

    def read(self, i):
        content = self.files[i]
        if content.isnan().any():
            return None
        return content

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return self.read(i)


class DataModule:
    def train_dataloader(self):
        return DataLoader(Archive(), batch_size=5)


torch.manual_seed(0)
autoencoder = nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 6))
optimizer = torch.optim.Adam(autoencoder.parameters())
for batch in DataModule().train_dataloader():
    loss = nn.functional.mse_loss(autoencoder(batch), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("            return None\n", "            return torch.zeros_like(content)\n"),),
        line=("return None", "return self.read(i)", "return DataLoader(Archive(), batch_size=5)"),
        says=("none", "__getitem__|read|collate_fn|archive|13"),
    ),
    crash(
        "split_sizes_rounded",
        "the sizes of a split are rounded down and miss a sample",
        kind="loading",
        style="typed",
        source="Stack Overflow, Sum of input lengths does not equal the length of the input dataset",
        program="""
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


def split(dataset: Dataset[tuple[Tensor, ...]], n: int, shares: tuple[float, ...]) -> list:
    sizes = [int(share * n) for share in shares]
    return random_split(dataset, sizes)


def train(model: nn.Module, loader: DataLoader) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
x = torch.randn(103, 4)
dataset = TensorDataset(x, x.sum(1, keepdim=True))
training, validation, test = split(dataset, len(dataset), (0.7, 0.2, 0.1))
train(nn.Linear(4, 1), DataLoader(training, batch_size=12, shuffle=True))
""",
        repair=(
            (
                "    sizes = [int(share * n) for share in shares]\n    return",
                "    sizes = [int(share * n) for share in shares]\n    sizes[0] += n - sum(sizes)\n    return",
            ),
        ),
        line=("return random_split(dataset, sizes)", "sizes = [int(share * n) for share in shares]"),
        says=("102", "103"),
    ),
)
