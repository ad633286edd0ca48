"""Crashes: images whose channels stand last, or that have no axis of channels."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "gray_without_channel_axis",
        "gray images without an axis of channels",
        kind="channels_last",
        style="notebook_cells",
        source="Kaggle notebook, digit recognizer",
        program="""
import torch
import torch.nn.functional as F
from torch import nn

train_images = torch.rand(120, 28, 28)
train_labels = torch.randint(10, (120,))
# %%
class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc = nn.Linear(320, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc(x.flatten(1))


net = ConvNet()
optimizer = torch.optim.Adam(net.parameters())
# %%
permutation = torch.randperm(len(train_images))
for rows in permutation.split(40):
    optimizer.zero_grad()
    logits = net(train_images[rows])
    F.cross_entropy(logits, train_labels[rows]).backward()
    optimizer.step()
""",
        repair=(("net(train_images[rows])", "net(train_images[rows].unsqueeze(1))"),),
        line=("net(train_images[rows])", "train_images = torch.rand(120, 28, 28)"),
        says=("channel", "unsqueeze", "conv1"),
    ),
    crash(
        "video_channels_last",
        "frames of a video with the channels last",
        kind="channels_last",
        style="trainer",
        source="discuss.pytorch.org, Conv3d expects N, C, D, H, W",
        program="""
import torch
from torch import nn


class ClipTrainer:
    def __init__(self):
        self.net = nn.Sequential(
            nn.Conv3d(3, 6, kernel_size=3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(6, 4)
        )
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def prepare(self, frames):
        return frames.float() / 255

    def step(self, frames, action):
        loss = nn.functional.cross_entropy(self.net(self.prepare(frames)), action)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = ClipTrainer()
for _ in range(3):
    frames = torch.randint(0, 256, (2, 5, 12, 16, 3), dtype=torch.uint8)
    trainer.step(frames, torch.randint(4, (2,)))
""",
        repair=(("return frames.float() / 255", "return frames.permute(0, 4, 1, 2, 3).float() / 255"),),
        line=("return frames.float() / 255", "self.net(self.prepare(frames))", "frames = torch.randint("),
        says=("channel", "permute|movedim"),
    ),
)
