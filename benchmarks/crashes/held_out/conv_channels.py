"""Crashes: a convolution that meets another number of channels."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "stacked_frames_channels",
        "four frames are stacked on an axis of their own, the network was made for four channels",
        kind="conv_channels",
        style="custom_parts",
        source="Stack Overflow, Atari frames and Conv2d",
        program="""
from collections import deque

import torch
from torch import nn


class FrameStack:
    def __init__(self, n):
        self.frames = deque(maxlen=n)

    def push(self, frame):
        while len(self.frames) < self.frames.maxlen - 1:
            self.frames.append(frame)
        self.frames.append(frame)

    def observation(self):
        return torch.cat(list(self.frames), dim=1)


torch.manual_seed(0)
stack = FrameStack(4)
policy = nn.Sequential(nn.Conv2d(4, 8, 4, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 9 * 9, 3))
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-3)
for _ in range(3):
    stack.push(torch.rand(1, 20, 20))
    logits = policy(stack.observation().unsqueeze(0))
    loss = nn.functional.cross_entropy(logits, torch.randint(3, (1,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.cat(list(self.frames), dim=1)", "torch.cat(list(self.frames), dim=0)"),),
        line=("torch.cat(list(self.frames), dim=1)", "logits = policy(stack.observation()"),
        says=(
            "channel",
            "4",
            "1",
            "dim=|cat|stack|observation|conv2d(",
        ),
    ),
    crash(
        "grouped_convolution_channels",
        "the number of groups does not divide the channels",
        kind="conv_channels",
        style="typed",
        source="GitHub issue, in_channels must be divisible by groups",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class StageConfig:
    width: int = 20
    groups: int = 8
    n_classes: int = 3


def make_network(config: StageConfig) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, config.width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(config.width, config.width, 3, padding=1, groups=config.groups),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(config.width, config.n_classes),
    )


torch.manual_seed(0)
config = StageConfig()
network = make_network(config)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(network(torch.rand(4, 3, 9, 9)), torch.randint(config.n_classes, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("groups: int = 8", "groups: int = 4"),),
        line=("groups: int = 8", "width: int = 20", "groups=config.groups"),
        says=("20", "8", "divi|multiple"),
    ),
    crash(
        "alpha_channel_images",
        "pictures with an alpha channel",
        kind="conv_channels",
        style="notebook_cells",
        source="Stack Overflow, expected input to have 3 channels, but got 4 channels instead",
        program="""
import numpy as np
import torch
from PIL import Image
from torch import nn

rng = np.random.default_rng(0)
icons = [Image.fromarray(rng.integers(0, 256, (16, 16, 4), dtype=np.uint8), "RGBA") for _ in range(20)]
labels = torch.arange(20) % 2
# %%
def load(picture):
    pixels = np.asarray(picture, dtype=np.float32) / 255
    return torch.from_numpy(pixels).permute(2, 0, 1)


images = torch.stack([load(icon) for icon in icons])
# %%
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(3):
    loss = nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("np.asarray(picture, dtype=np.float32)", 'np.asarray(picture.convert("RGB"), dtype=np.float32)'),),
        line=("np.asarray(picture, dtype=np.float32)", "nn.Conv2d(3, 8, 3)", "cross_entropy(net(images), labels)"),
        says=(
            "channel",
            "4",
            "3",
            "alpha|rgb|in_channels|conv2d(",
        ),
    ),
    crash(
        "batchnorm_of_layer_before",
        "batch normalization has the channels of the layer before",
        kind="conv_channels",
        style="lightning_like",
        source="discuss.pytorch.org, running_mean should contain 16 elements not 8",
        program="""
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.bn2 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(16, 2)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))

    def training_step(self, batch):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])


torch.manual_seed(0)
module = Backbone()
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for _ in range(3):
    loss = module.training_step((torch.rand(6, 3, 10, 10), torch.randint(2, (6,))))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.bn2 = nn.BatchNorm2d(8)", "self.bn2 = nn.BatchNorm2d(16)"),),
        says=("bn2", "16", "8"),
    ),
)
