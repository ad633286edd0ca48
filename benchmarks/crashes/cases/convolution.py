"""Crashes: convolutions and their channels, axes and sizes."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "scans_are_gray",
        "the data set gives images of one channel, the first convolution takes three",
        kind="convolution",
        style="trainer",
        source="discuss.pytorch.org, expected input to have 3 channels, but got 1 channels instead",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, n=24):
        self.pixels = torch.randint(256, (n, 20, 20), dtype=torch.uint8)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        image = self.pixels[i].float().div(255).unsqueeze(0)
        return image, int(image.mean() > 0.5)


class Trainer:
    def __init__(self, dataset):
        self.loader = DataLoader(dataset, batch_size=6, shuffle=True)
        self.model = nn.Sequential(
            nn.Conv2d(3, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for images, labels in self.loader:
            loss = nn.functional.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(Scans()).fit()
""",
        repair=(("nn.Conv2d(3, 8, 5)", "nn.Conv2d(1, 8, 5)"),),
        line=("nn.Conv2d(3, 8, 5)", "image = self.pixels[i].float().div(255).unsqueeze(0)"),
        says=("3", "1", "conv2d(1|in_channels|gray|grey|expand|repeat|unsqueeze"),
    ),
    crash(
        "pooled_below_kernel",
        "thumbnails of a smaller size are pooled until the last kernel does not fit",
        kind="convolution",
        style="script",
        source="Stack Overflow, Kernel size can't be greater than actual input size",
        program="""
import torch
from torch import nn

IMAGE_SIZE = 20
BATCH = 4


def stage(n_in, n_out):
    return [nn.Conv2d(n_in, n_out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]


torch.manual_seed(0)
layers = []
channels = 3
for width in (8, 8, 16):
    layers += stage(channels, width)
    channels = width
layers += [nn.Conv2d(channels, 16, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2)]
model = nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    images = torch.rand(BATCH, 3, IMAGE_SIZE, IMAGE_SIZE)
    loss = nn.functional.cross_entropy(model(images), torch.randint(2, (BATCH,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("IMAGE_SIZE = 20", "IMAGE_SIZE = 40"),),
        line=("IMAGE_SIZE = 20", "nn.Conv2d(channels, 16, 4)", "for width in (8, 8, 16):", "nn.MaxPool2d(2)"),
        says=("2", "4", "pool|image_size|padding=|larger input|smaller kernel|input is too small|conv2d"),
    ),
    crash(
        "groups_do_not_divide",
        "a separable block makes a depthwise convolution with a number of outputs its groups do not divide",
        kind="convolution",
        style="custom_parts",
        source="GitHub issue, out_channels must be divisible by groups",
        program="""
import torch
from torch import nn


class Separable(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.depthwise = nn.Conv2d(n_in, n_out, 3, padding=1, groups=n_in)
        self.pointwise = nn.Conv2d(n_out, n_out, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x)).relu()


torch.manual_seed(0)
model = nn.Sequential(Separable(3, 12), Separable(12, 20), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(20, 2))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.rand(4, 3, 12, 12)), torch.randint(2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("nn.Conv2d(n_in, n_out, 3, padding=1, groups=n_in)", "nn.Conv2d(n_in, n_in, 3, padding=1, groups=n_in)"),
            ("nn.Conv2d(n_out, n_out, 1)", "nn.Conv2d(n_in, n_out, 1)"),
        ),
        line=("groups=n_in)", "Separable(12, 20)"),
        says=("20", "12", "groups"),
    ),
)
