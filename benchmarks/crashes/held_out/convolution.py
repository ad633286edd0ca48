"""Crashes: convolutions and their channels, axes and sizes."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "photos_channels_last",
        "the images are read as height, width, channels and go to Conv2d so",
        kind="convolution",
        style="functional",
        source="Stack Overflow, expected input[8, 24, 24, 3] to have 3 channels, but got 24 channels",
        program="""
import numpy as np
import torch
from torch import nn


def read_photos(n, seed=0):
    photos = np.random.default_rng(seed).integers(0, 256, (n, 24, 20, 3), dtype=np.uint8)
    return torch.from_numpy(photos).float() / 255


def make_net(classes):
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(24, classes))


def train(net, photos, labels, epochs=3):
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(epochs):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(photos), labels).backward()
        optimizer.step()


torch.manual_seed(0)
train(make_net(4), read_photos(8), torch.randint(4, (8,)))
""",
        repair=(
            ("torch.from_numpy(photos).float() / 255", "torch.from_numpy(photos).permute(0, 3, 1, 2).float() / 255"),
        ),
        line=(
            "return torch.from_numpy(photos).float() / 255",
            "photos = np.random",
            "nn.functional.cross_entropy(net(photos), labels)",
        ),
        says=("permute|movedim|moveaxis|transpose|channels last|channels-last", "24", "3"),
    ),
    crash(
        "signal_axes_for_conv1d",
        "sensor windows have time before channels, Conv1d takes channels before time",
        kind="convolution",
        style="typed",
        source="discuss.pytorch.org, Conv1d input shape of time series",
        program="""
import torch
from torch import Tensor, nn


class Activity(nn.Module):
    def __init__(self, sensors: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(sensors, 16, kernel_size=5, padding=2)
        self.head = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).relu().mean(dim=2))


def windows(signal: Tensor, length: int) -> Tensor:
    # signal: (time, sensors)
    return torch.stack(list(signal.split(length)))


torch.manual_seed(0)
model: nn.Module = Activity(sensors=6, classes=3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batch, labels = windows(torch.randn(400, 6), 50), torch.randint(3, (8,))
for _ in range(3):
    loss = nn.functional.cross_entropy(model(batch), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("torch.stack(list(signal.split(length)))", "torch.stack(list(signal.split(length))).transpose(1, 2)"),
        ),
        line=(
            "return torch.stack(list(signal.split(length)))",
            "self.conv(x).relu()",
            "model(batch), labels",
            "batch, labels = windows(",
        ),
        says=("transpose|permute|movedim|swapaxes|.mt", "6", "50"),
    ),
)
