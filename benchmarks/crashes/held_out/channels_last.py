"""Crashes: images whose channels stand last, or that have no axis of channels."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "numpy_images_height_width_channel",
        "images from NumPy with the channels last",
        kind="channels_last",
        style="script",
        source="Stack Overflow, expected input to have 3 channels, but got 64",
        program="""
import numpy as np
import torch
import torch.nn as nn

images = np.random.default_rng(0).integers(0, 256, size=(40, 64, 64, 3))
labels = np.arange(40) % 2

x = torch.tensor(images / 255.0, dtype=torch.float32)
y = torch.tensor(labels)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in range(0, 40, 10):
    out = model(x[i : i + 10])
    loss = nn.functional.cross_entropy(out, y[i : i + 10])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("dtype=torch.float32)", "dtype=torch.float32).permute(0, 3, 1, 2)"),),
        line=("dtype=torch.float32)", "out = model(x[i : i + 10])"),
        says=("channel", "permute|movedim|transpose", "64"),
    ),
    crash(
        "dataset_without_permute",
        "a data set gives height, width, channel",
        kind="channels_last",
        style="custom_parts",
        source="discuss.pytorch.org, custom Dataset with cv2 images",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, n, size):
        self.rng = np.random.default_rng(0)
        self.photos = self.rng.integers(0, 256, (n, size, size, 3), dtype=np.uint8)
        self.labels = self.rng.integers(0, 4, n)

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        photo = self.photos[index].astype(np.float32) / 255
        return torch.from_numpy(photo), int(self.labels[index])


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 7, stride=2)
        self.norm = nn.BatchNorm2d(12)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        return self.head(x.mean(dim=(2, 3)))


torch.manual_seed(0)
net = Backbone()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for photos, labels in DataLoader(Photos(24, 40), batch_size=8):
    loss = nn.functional.cross_entropy(net(photos), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.from_numpy(photo)", "torch.from_numpy(photo).permute(2, 0, 1)"),),
        line=("torch.from_numpy(photo)", "net(photos)"),
        says=("channel", "stem", "permute|movedim|transpose"),
    ),
    crash(
        "permute_moves_wrong_axes",
        "the permutation of the axes is the inverse of the one that is needed",
        kind="channels_last",
        style="typed",
        source="discuss.pytorch.org, permute for HWC images",
        program="""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Settings:
    batch: int = 6
    size: tuple[int, int] = (24, 36)
    channels: list[int] = field(default_factory=lambda: [3, 8, 8])


def make_model(settings: Settings) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in zip(settings.channels, settings.channels[1:]):
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.GELU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(settings.channels[-1], 1))


def to_input(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1).contiguous()


torch.manual_seed(0)
settings = Settings()
model = make_model(settings)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    raw = torch.rand(settings.batch, *settings.size, 3)
    loss = (model(to_input(raw)).squeeze(1) - raw.mean((1, 2, 3))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("permute(0, 2, 3, 1)", "permute(0, 3, 1, 2)"),),
        says=("channel", "permute"),
    ),
)
