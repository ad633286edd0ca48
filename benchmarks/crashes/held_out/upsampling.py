"""Crashes: transposed convolutions, interpolation, skips and paddings."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "transposed_weight_order",
        "the weight of a functional transposed convolution has outputs before inputs",
        kind="upsampling",
        style="functional",
        source="GitHub issue, conv_transpose2d weight layout",
        program="""
import torch
from torch.nn import functional as F


def init(n_in, n_out, size):
    return (torch.randn(n_out, n_in, size, size) * 0.1).requires_grad_()


def encode(params, x):
    return F.relu(F.conv2d(x, params["down"], stride=2, padding=1))


def decode(params, code):
    return F.conv_transpose2d(code, params["up"], stride=2, padding=1)


torch.manual_seed(0)
params = {"down": init(3, 10, 4), "up": init(10, 3, 4)}
optimizer = torch.optim.SGD(params.values(), lr=0.1)
for _ in range(3):
    x = torch.rand(2, 3, 16, 16)
    loss = F.mse_loss(decode(params, encode(params, x)), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(('"up": init(10, 3, 4)', '"up": init(3, 10, 4)'),),
        line=('"up": init(10, 3, 4)', "F.conv_transpose2d(code"),
        says=(
            "3",
            "10",
            "init(3, 10|input channels first|inputs first|in_channels, out|swap|order|transpose(0|permute(1",
        ),
    ),
    crash(
        "reflection_wider_than_image",
        "a style network pads the small code by more than its side",
        kind="upsampling",
        style="lightning_like",
        source="Stack Overflow, Padding size should be less than the corresponding input dimension",
        program="""
import torch
from torch import nn


class ConvLayer(nn.Module):
    def __init__(self, n_in, n_out, kernel, stride=1):
        super().__init__()
        self.pad = nn.ReflectionPad2d(kernel // 2)
        self.conv = nn.Conv2d(n_in, n_out, kernel, stride)

    def forward(self, x):
        return self.conv(self.pad(x)).relu()


class Style(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.size = size
        self.body = nn.Sequential(
            ConvLayer(3, 8, 3, stride=2), ConvLayer(8, 8, 3, stride=2), ConvLayer(8, 8, 9), nn.Upsample(scale_factor=4)
        )
        self.out = nn.Conv2d(8, 3, 1)

    def training_step(self, batch):
        return nn.functional.mse_loss(self.out(self.body(batch)), batch)


torch.manual_seed(0)
module = Style()
optimizer = torch.optim.Adam(module.parameters())
for _ in range(3):
    optimizer.zero_grad()
    module.training_step(torch.rand(2, 3, module.size, module.size)).backward()
    optimizer.step()
""",
        repair=(("ConvLayer(8, 8, 9)", "ConvLayer(8, 8, 5)"),),
        line=("ConvLayer(8, 8, 9)", "size=16", "nn.ReflectionPad2d(kernel // 2)"),
        says=("4", "kernel|reflection", "smaller|larger|zero|at most|less than|reduce|replicat"),
    ),
)
