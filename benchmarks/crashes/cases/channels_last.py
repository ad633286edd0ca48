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
)
