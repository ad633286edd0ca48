"""Crashes: targets whose shape the loss does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "mask_with_channel_axis",
        "the masks of a segmentation keep an axis of channels",
        kind="target_shape",
        style="custom_parts",
        source="discuss.pytorch.org, only batches of spatial targets supported",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Fields(Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(0)
        self.photos = torch.rand(n, 3, 12, 12, generator=generator)

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, i):
        photo = self.photos[i]
        mask = (photo[:1] > 0.5).long()
        return photo, mask


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for photos, masks in DataLoader(Fields(16), batch_size=4):
    loss = nn.functional.cross_entropy(net(photos), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("mask = (photo[:1] > 0.5).long()", "mask = (photo[0] > 0.5).long()"),),
        line=("mask = (photo[:1] > 0.5).long()", "cross_entropy(net(photos), masks)", "return photo, mask"),
        says=("squeeze|axis", "mask|target", "12"),
    ),
    crash(
        "targets_of_whole_set",
        "the loss compares the batch with the labels of the whole set",
        kind="target_shape",
        style="functional",
        source="Stack Overflow, Expected input batch_size to match target batch_size",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
X, Y = torch.randn(96, 5), torch.randint(4, (96,))
w = torch.zeros(5, 4, requires_grad=True)
b = torch.zeros(4, requires_grad=True)


def minibatches(x, y, size):
    order = torch.randperm(len(x))
    for rows in order.split(size):
        yield x[rows], y[rows]


def objective(x, y):
    return F.cross_entropy(x @ w + b, y) + 1e-3 * w.pow(2).sum()


optimizer = torch.optim.SGD([w, b], lr=0.2)
for xb, yb in minibatches(X, Y, 24):
    loss = objective(xb, Y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("objective(xb, Y)", "objective(xb, yb)"),),
        line=("objective(xb, Y)", "return F.cross_entropy(x @ w + b, y)"),
        says=(
            "24",
            "96",
            "yb|whole|full|entire|all the|data set",
        ),
    ),
    crash(
        "classes_of_other_data_set",
        "the targets of a heat map have another number of classes than the output",
        kind="target_shape",
        style="typed",
        source="GitHub issue, The size of tensor a (15) must match the size of tensor b (11)",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class HeatConfig:
    n_classes: int = 15
    n_labels: int = 11


def focal(predicted: Tensor, target: Tensor) -> Tensor:
    p = predicted.sigmoid().clamp(1e-4, 1 - 1e-4)
    positive = target.eq(1).float()
    found = torch.log(p) * (1 - p) ** 2 * positive
    missed = torch.log(1 - p) * p**2 * (1 - positive)
    return -(found + missed).mean()


torch.manual_seed(0)
config = HeatConfig()
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, config.n_classes, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    images = torch.rand(2, 3, 10, 10)
    heat = (torch.rand(2, config.n_labels, 10, 10) > 0.95).float()
    loss = focal(net(images), heat)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("n_classes: int = 15", "n_classes: int = 11"),),
        line=(
            "n_classes: int = 15",
            "n_labels: int = 11",
            "found = torch.log(p)",
            "nn.Conv2d(8, config.n_classes, 1)",
            "loss = focal(net(images), heat)",
        ),
        says=(
            "15",
            "11",
            "n_classes|positive|channel|heat|label|target",
        ),
    ),
)
