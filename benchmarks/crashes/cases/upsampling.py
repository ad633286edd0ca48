"""Crashes: transposed convolutions, interpolation, skips and paddings."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "skip_of_odd_size",
        "an odd image is halved and doubled again, and is one pixel smaller than its skip",
        kind="upsampling",
        style="hand_written_model",
        source="discuss.pytorch.org, U-Net sizes of tensors must match except in dimension 1",
        program="""
import torch
from torch import nn


def double(n_in, n_out):
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, padding=1), nn.ReLU(), nn.Conv2d(n_out, n_out, 3, padding=1))


class SmallUNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.down1, self.down2 = double(1, 4), double(4, 8)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Sequential(double(8, 4), nn.Conv2d(4, classes, 1))

    def forward(self, x):
        skip = self.down1(x)
        x = self.up(self.down2(self.pool(skip)))
        return self.last(torch.cat((skip, x), 1))


def load_slices(n=4, side=25):
    return torch.rand(n, 1, side, side), torch.randint(3, (n, side, side))


torch.manual_seed(0)
net = SmallUNet()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    images, masks = load_slices()
    loss = nn.functional.cross_entropy(net(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("side=25", "side=24"),),
        line=(
            "side=25",
            "x = self.up(self.down2(self.pool(skip)))",
            "torch.cat((skip, x), 1)",
            "self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)",
            "self.pool = nn.MaxPool2d(2)",
        ),
        says=("25", "24", "pad|crop|interpolate|odd|even|divisible|output_size"),
    ),
    crash(
        "features_upsampled_flat",
        "a feature sequence without an axis of height goes to a bilinear Upsample",
        kind="upsampling",
        style="reshape_by_hand",
        source="Stack Overflow, Got 3D input, but bilinear mode needs 4D input",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
patch, dim, classes = 4, 16, 3
to_patches = nn.Conv2d(3, dim, patch, stride=patch)
mixer = nn.Linear(dim, dim)
head = nn.Conv2d(dim, classes, 1)
upsample = nn.Upsample(scale_factor=patch, mode="bilinear")
parameters = [*to_patches.parameters(), *mixer.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3)

for _ in range(3):
    images, masks = torch.rand(2, 3, 24, 24), torch.randint(classes, (2, 24, 24))
    tokens = to_patches(images).flatten(2).transpose(1, 2)
    tokens = tokens + mixer(tokens).relu()
    grid = tokens.transpose(1, 2)
    scores = head(upsample(grid))
    loss = nn.functional.cross_entropy(scores, masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("grid = tokens.transpose(1, 2)", "grid = tokens.transpose(1, 2).reshape(2, dim, 6, 6)"),),
        line=("grid = tokens.transpose(1, 2)", "scores = head(upsample(grid))"),
        says=("reshape|unflatten|view|rearrange|height", "36|6"),
    ),
)
