"""Crashes: class labels that the output does not have."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "ignored_label_minus_one",
        "pixels without a label are marked with -1, which the loss does not ignore",
        kind="label_range",
        style="custom_parts",
        source="discuss.pytorch.org, ignore_index in CrossEntropyLoss",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tiles(Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.rand(n, 3, 16, 16, generator=generator)
        self.masks = (self.images[:, 0] > 0.5).long()
        self.masks[:, :2, :2] = -1

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class SegmentationLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.entropy = nn.CrossEntropyLoss(label_smoothing=0.0)

    def forward(self, logits, masks):
        return self.entropy(logits, masks)


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
criterion = SegmentationLoss()
optimizer = torch.optim.Adam(net.parameters())
for images, masks in DataLoader(Tiles(12), batch_size=4):
    loss = criterion(net(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("label_smoothing=0.0)", "label_smoothing=0.0, ignore_index=-1)"),),
        line=("label_smoothing=0.0)", "self.masks[:, :2, :2] = -1", "self.entropy(logits, masks)"),
        says=("-1", "ignore_index"),
    ),
    crash(
        "one_hot_with_few_classes",
        "one_hot is told fewer classes than there are",
        kind="label_range",
        style="typed",
        source="Stack Overflow, Class values must be smaller than num_classes",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class TaskConfig:
    n_inputs: int = 6
    n_classes: int = 4
    n_levels: int = 4


def soft_targets(levels: Tensor, config: TaskConfig) -> Tensor:
    hot = F.one_hot(levels, num_classes=config.n_classes).float()
    return 0.9 * hot + 0.1 / config.n_classes


torch.manual_seed(0)
config = TaskConfig()
model = nn.Linear(config.n_inputs, config.n_classes)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(20, config.n_inputs)
    levels = torch.randint(0, config.n_levels + 1, (20,))
    loss = F.cross_entropy(model(x), soft_targets(levels, config))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("n_classes: int = 4", "n_classes: int = 5"),),
        line=("n_classes: int = 4", "hot = F.one_hot(", "torch.randint(0, config.n_levels + 1"),
        says=("4", "num_classes|class"),
    ),
)
