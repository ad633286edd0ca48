"""Crashes: convolutions that meet other channels, and joins of feature maps that do not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "dqn_stack_of_frames",
        "the wrapper stacks four frames, the network expects three channels",
        kind="feature_maps",
        style="custom_parts",
        source="Stack Overflow, expected input to have 3 channels but got 4 channels, DQN",
        program="""
from collections import deque

import torch
from torch import nn


class FrameStack:
    def __init__(self, size=4):
        self.frames = deque(maxlen=size)

    def reset(self):
        for _ in range(self.frames.maxlen):
            self.frames.append(torch.rand(42, 42))
        return torch.stack(list(self.frames))

    def step(self):
        self.frames.append(torch.rand(42, 42))
        return torch.stack(list(self.frames)), torch.rand(())


class QNetwork(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 8, stride=4)
        self.conv2 = nn.Conv2d(16, 32, 4, stride=2)
        self.head = nn.Linear(32 * 3 * 3, actions)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.head(x.flatten(1))


torch.manual_seed(0)
env = FrameStack()
q = QNetwork(actions=4)
optimizer = torch.optim.Adam(q.parameters(), lr=1e-4)
state = env.reset()
for _ in range(5):
    following, reward = env.step()
    value = q(state[None]).max()
    with torch.no_grad():
        target = reward + 0.99 * q(following[None]).max()
    loss = nn.functional.smooth_l1_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state = following
""",
        repair=(("self.conv1 = nn.Conv2d(3, 16, 8, stride=4)", "self.conv1 = nn.Conv2d(4, 16, 8, stride=4)"),),
        line=("self.conv1 = nn.Conv2d(3, 16, 8, stride=4)", "def __init__(self, size=4):"),
        says=("conv1", "3", "4"),
    ),
    crash(
        "dataset_keeps_channels_last",
        "the dataset turns numpy pictures into tensors and leaves the channels last",
        kind="feature_maps",
        style="trainer",
        source="discuss.pytorch.org, expected input to have 3 channels, but got 40 channels",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, count):
        generator = np.random.default_rng(0)
        self.pixels = generator.integers(0, 256, (count, 40, 40, 3), dtype=np.uint8)
        self.labels = generator.integers(0, 2, count)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        picture = torch.from_numpy(self.pixels[index]).float() / 255
        return picture, int(self.labels[index])


class Trainer:
    def __init__(self, model, lr=0.01):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self, loader):
        self.model.train()
        for pictures, labels in loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(pictures), labels)
            loss.backward()
            self.optimizer.step()


model = nn.Sequential(
    nn.Conv2d(3, 12, 3, padding=1),
    nn.BatchNorm2d(12),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(12, 2),
)
Trainer(model).train_epoch(DataLoader(Pictures(32), batch_size=8, shuffle=True))
""",
        repair=(
            (
                "torch.from_numpy(self.pixels[index]).float() / 255",
                "torch.from_numpy(self.pixels[index]).permute(2, 0, 1).float() / 255",
            ),
        ),
        line=(
            "picture = torch.from_numpy(self.pixels[index]).float() / 255",
            "loss = self.criterion(self.model(pictures), labels)",
        ),
        says=("permute|movedim|channels last|channels-last|nhwc", "40", "3"),
    ),
)
