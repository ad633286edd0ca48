"""Crashes: a convolution that meets another number of channels."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "gray_images_first_conv",
        "gray images meet a first convolution for color images",
        kind="conv_channels",
        style="script",
        source="Stack Overflow, expected input to have 3 channels, but got 1",
        program="""
import torch
import torch.nn as nn
import torch.optim as optim

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 6, 5),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(4),
    nn.Flatten(),
    nn.Linear(256, 10),
)
optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for step in range(4):
    inputs, labels = torch.rand(32, 1, 28, 28), torch.randint(0, 10, (32,))
    optimizer.zero_grad()
    outputs = net(inputs)
    loss = nn.functional.cross_entropy(outputs, labels)
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Conv2d(3, 6, 5)", "nn.Conv2d(1, 6, 5)"),),
        line=("nn.Conv2d(3, 6, 5)", "torch.rand(32, 1, 28, 28)"),
        says=(
            "channel",
            "1",
            "gray|grey|in_channels|conv2d(",
        ),
    ),
    crash(
        "unet_decoder_channels",
        "the decoder of a U-Net forgets the channels of the skip connection",
        kind="conv_channels",
        style="hand_written_model",
        source="discuss.pytorch.org, U-Net",
        program="""
import torch
from torch import nn


def block(n_in, n_out):
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = block(3, 16)
        self.down2 = block(16, 32)
        self.bottom = block(32, 64)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.dec2 = block(64, 32)
        self.up1 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.dec1 = block(16, 16)
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        s1 = self.down1(x)
        s2 = self.down2(self.pool(s1))
        x = self.bottom(self.pool(s2))
        x = self.dec2(torch.cat([self.up2(x), s2], dim=1))
        x = self.dec1(torch.cat([self.up1(x), s1], dim=1))
        return self.head(x)


torch.manual_seed(0)
model = UNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.BCEWithLogitsLoss()
for step in range(2):
    x = torch.randn(2, 3, 32, 32)
    loss = loss_fn(model(x), (x.mean(1, keepdim=True) > 0).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.dec1 = block(16, 16)", "self.dec1 = block(32, 16)"),),
        says=("dec1", "32", "16"),
    ),
    crash(
        "conv1d_sensor_axes",
        "sensor data of shape batch, time, channel given to Conv1d",
        kind="conv_channels",
        style="trainer",
        source="Stack Overflow, Conv1d expected input to have channels",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ActivityNet(nn.Module):
    def __init__(self, n_sensors=6, n_classes=4):
        super().__init__()
        self.conv = nn.Conv1d(n_sensors, 32, kernel_size=5)
        self.pool = nn.AdaptiveMaxPool1d(1)
        self.fc = nn.Linear(32, n_classes)

    def forward(self, windows):
        x = torch.relu(self.conv(windows))
        return self.fc(self.pool(x).squeeze(2))


class Experiment:
    def __init__(self):
        torch.manual_seed(0)
        windows = torch.randn(90, 128, 6)
        labels = torch.randint(4, (90,))
        self.loader = DataLoader(TensorDataset(windows, labels), batch_size=30, shuffle=True)
        self.net = ActivityNet()
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=1e-3)

    def run_epoch(self):
        for windows, labels in self.loader:
            loss = nn.functional.cross_entropy(self.net(windows), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Experiment().run_epoch()
""",
        repair=(("self.conv(windows)", "self.conv(windows.transpose(1, 2))"),),
        line=("self.conv(windows)", "torch.randn(90, 128, 6)", "self.net(windows)"),
        says=("conv", "6", "128", "transpose|permute|last|exchange|swap"),
    ),
    crash(
        "functional_conv_weight_layout",
        "a kernel made by hand with the axes of output and input exchanged",
        kind="conv_channels",
        style="functional",
        source="discuss.pytorch.org, F.conv2d weight shape",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
kernel = (torch.randn(3, 8, 3, 3) * 0.1).requires_grad_()
head = torch.randn(8, 2, requires_grad=True)


def predict(images):
    maps = F.conv2d(images, kernel, padding=1)
    pooled = F.relu(maps).mean(dim=(2, 3))
    return pooled @ head


optimizer = torch.optim.SGD([kernel, head], lr=0.1)
for step in range(3):
    images = torch.randn(10, 3, 16, 16)
    labels = (images.mean((1, 2, 3)) > 0).long()
    loss = F.cross_entropy(predict(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.randn(3, 8, 3, 3)", "torch.randn(8, 3, 3, 3)"),),
        line=("torch.randn(3, 8, 3, 3)", "F.conv2d(images, kernel, padding=1)"),
        says=(
            "channel",
            "8",
            "3",
            "kernel",
        ),
    ),
)
