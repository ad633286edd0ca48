"""Crashes: sums of maps whose sizes differ."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "valid_convolution_residual",
        "a convolution without padding shrinks the map that is added to its input",
        kind="residual",
        style="script",
        source="discuss.pytorch.org, The size of tensor a must match the size of tensor b",
        program="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 16, 3)
        self.conv3 = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, noisy):
        h = F.relu(self.conv1(noisy))
        h = F.relu(self.conv2(h))
        noise = self.conv3(h)
        return noisy - noise


model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    clean = torch.rand(4, 1, 24, 24)
    noisy = clean + 0.1 * torch.randn_like(clean)
    loss = F.mse_loss(model(noisy), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Conv2d(16, 16, 3)", "nn.Conv2d(16, 16, 3, padding=1)"),),
        line=("nn.Conv2d(16, 16, 3)", "return noisy - noise"),
        says=("conv2", "padding", "22", "24"),
    ),
    crash(
        "upsampled_skip_sum",
        "the upsampled map is one pixel smaller than the skip",
        kind="residual",
        style="lightning_like",
        source="discuss.pytorch.org, FPN lateral connection sizes",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


class Lateral(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        c1 = F.relu(self.c1(x))
        c2 = F.relu(self.c2(c1))
        up = F.interpolate(c2, scale_factor=2)
        return self.head(c1 + up)

    def training_step(self, batch, batch_idx):
        image, heat = batch
        return F.mse_loss(self(image), heat)


torch.manual_seed(0)
module = Lateral()
optimizer = torch.optim.Adam(module.parameters())
for i in range(3):
    loss = module.training_step((torch.rand(2, 3, 50, 50), torch.rand(2, 1, 25, 25)), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("scale_factor=2)", "size=c1.shape[2:])"),),
        line=("scale_factor=2)", "return self.head(c1 + up)", "torch.rand(2, 3, 50, 50)"),
        says=(
            "25",
            "26",
            "c1|c2|interpolate|upsampl|scale_factor|odd",
        ),
    ),
    crash(
        "causal_padding_not_removed",
        "a convolution with causal padding returns more steps than it got",
        kind="residual",
        style="custom_parts",
        source="GitHub issue, temporal convolutional network without chomp",
        program="""
import torch
from torch import nn


class CausalConv(nn.Module):
    def __init__(self, channels, kernel, dilation):
        super().__init__()
        self.extra = (kernel - 1) * dilation
        self.conv = nn.Conv1d(channels, channels, kernel, padding=self.extra, dilation=dilation)

    def forward(self, x):
        return self.conv(x)


class TemporalBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.filter = CausalConv(channels, 3, dilation)
        self.gate = CausalConv(channels, 3, dilation)

    def forward(self, x):
        return x + torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))


torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(1, 6, 1), TemporalBlock(6, 1), TemporalBlock(6, 2), nn.Conv1d(6, 1, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    series = torch.randn(4, 1, 30).cumsum(2)
    loss = nn.functional.mse_loss(net(series[:, :, :-1]), series[:, :, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return self.conv(x)", "return self.conv(x)[:, :, : -self.extra]"),),
        line=("return self.conv(x)", "padding=self.extra", "return x + torch.tanh("),
        says=("29", "31", "padding|conv|filter|gate"),
    ),
)
