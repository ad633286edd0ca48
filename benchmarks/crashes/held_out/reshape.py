"""Crashes: reshapes whose number of elements does not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "pixel_shuffle_by_hand",
        "the channels do not split into the factor by hand",
        kind="reshape",
        style="functional",
        source="Stack Overflow, depth to space, shape is invalid for input of size",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
kernel = (torch.randn(8, 1, 3, 3) * 0.2).requires_grad_()


def depth_to_space(x, factor):
    b, c, h, w = x.shape
    x = x.view(b, c // factor**2, factor, factor, h, w)
    return x.permute(0, 1, 4, 2, 5, 3).reshape(b, c // factor**2, h * factor, w * factor)


def upscale(small):
    return depth_to_space(F.conv2d(small, kernel, padding=1), 3)[:, :1]


optimizer = torch.optim.Adam([kernel], lr=0.01)
for _ in range(3):
    large = torch.rand(4, 1, 18, 18)
    loss = F.l1_loss(upscale(F.interpolate(large, scale_factor=1 / 3)), large)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.randn(8, 1, 3, 3)", "torch.randn(9, 1, 3, 3)"),),
        line=("torch.randn(8, 1, 3, 3)", "x = x.view(b, c // factor**2", "depth_to_space(F.conv2d("),
        says=(
            "8|1152",
            "kernel|channels|factor|divi|multiple",
        ),
    ),
    crash(
        "time_distributed_reshape",
        "the axes of batch and time are separated with the wrong number of steps",
        kind="reshape",
        style="trainer",
        source="discuss.pytorch.org, TimeDistributed layer",
        program="""
import torch
from torch import nn


class VideoNet(nn.Module):
    def __init__(self, steps=8):
        super().__init__()
        self.steps = steps
        self.frame = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.rnn = nn.GRU(4, 10, batch_first=True)
        self.head = nn.Linear(10, 2)

    def forward(self, clips):
        features = self.frame(clips.flatten(0, 1))
        features = features.view(clips.shape[0], self.steps, 4)
        return self.head(self.rnn(features)[1][0])


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())

    def step(self, clips, labels):
        loss = nn.functional.cross_entropy(self.model(clips), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer(VideoNet())
for _ in range(3):
    trainer.step(torch.rand(5, 6, 1, 9, 9), torch.randint(2, (5,)))
""",
        repair=(("features.view(clips.shape[0], self.steps, 4)", "features.view(clips.shape[0], clips.shape[1], 4)"),),
        line=("features.view(clips.shape[0], self.steps, 4)", "steps=8", "torch.rand(5, 6, 1, 9, 9)"),
        says=(
            "8",
            "steps|features|clips",
        ),
    ),
)
