"""Crashes: convolutions that meet other channels, and joins of feature maps that do not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "unet_skip_of_odd_size",
        "the pictures have an odd size, and the upsampled map is one pixel smaller than the skip connection",
        kind="feature_maps",
        style="hand_written_model",
        source="GitHub issue, UNet, Sizes of tensors must match except in dimension 1",
        program="""
import torch
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.down1 = block(1, 8)
        self.down2 = block(8, 16)
        self.bottom = block(16, 32)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.dec2 = block(32, 16)
        self.up1 = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.dec1 = block(16, 8)
        self.out = nn.Conv2d(8, classes, 1)

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(self.pool(d1))
        x = self.bottom(self.pool(d2))
        x = self.dec2(torch.cat([self.up2(x), d2], dim=1))
        x = self.dec1(torch.cat([self.up1(x), d1], dim=1))
        return self.out(x)


def load_scans(count, size=50):
    scans = torch.randn(count, 1, size, size)
    return scans, (scans[:, 0] > 0).long()


torch.manual_seed(0)
net = UNet(2)
optimizer = torch.optim.Adam(net.parameters())
scans, masks = load_scans(6)
for x, y in zip(scans.split(2), masks.split(2)):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("def load_scans(count, size=50):", "def load_scans(count, size=48):"),),
        line=(
            "def load_scans(count, size=50):",
            "x = self.dec2(torch.cat([self.up2(x), d2], dim=1))",
            "self.up2 = nn.ConvTranspose2d(32, 16, 2, stride=2)",
            "scans, masks = load_scans(6)",
        ),
        says=("24", "25", "up2|d2|interpolate|pad|odd|multiple|divisible|output_size|output_padding"),
    ),
    crash(
        "strided_block_without_projection",
        "a block that halves the picture adds the unchanged input",
        kind="feature_maps",
        style="typed",
        source="discuss.pytorch.org, size of tensor a must match tensor b in ResNet",
        program="""
from __future__ import annotations

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return torch.relu(out + self.shortcut(x))


def make_resnet(widths: list[int], classes: int) -> nn.Sequential:
    blocks: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, padding=1)]
    for before, after in zip(widths, widths[1:]):
        blocks.append(BasicBlock(before, after, stride=2))
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


torch.manual_seed(0)
model = make_resnet([8, 16, 16], classes=4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(6, 3, 32, 32)), torch.randint(4, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("if inputs != outputs:", "if inputs != outputs or stride != 1:"),),
        line=(
            "if inputs != outputs:",
            "self.shortcut = nn.Identity()",
            "return torch.relu(out + self.shortcut(x))",
            "blocks.append(BasicBlock(before, after, stride=2))",
        ),
        says=("stride", "shortcut|identity|residual|skip"),
    ),
    crash(
        "normalize_by_mean_of_channels",
        "the mean of three channels is subtracted from a batch of pictures without axes for height and width",
        kind="feature_maps",
        style="functional",
        source="Stack Overflow, size of tensor a must match size of tensor b at non-singleton dimension 3",
        program="""
import torch
import torch.nn.functional as F
from torch import nn

MEAN = torch.tensor([0.485, 0.456, 0.406])
STD = torch.tensor([0.229, 0.224, 0.225])


def normalize(images):
    return (images - MEAN) / STD


def augment(images):
    if torch.rand(()) < 0.5:
        images = images.flip(-1)
    return F.pad(images, (1, 1, 1, 1))


def make_batch(size):
    return torch.rand(size, 3, 22, 22), torch.randint(0, 6, (size,))


torch.manual_seed(3)
model = nn.Sequential(
    nn.Conv2d(3, 10, 5, stride=2), nn.ReLU(), nn.Conv2d(10, 10, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(6)
)
model(torch.zeros(1, 3, 24, 24))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(5):
    images, labels = make_batch(12)
    logits = model(normalize(augment(images)))
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("MEAN = torch.tensor([0.485, 0.456, 0.406])", "MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)"),
            ("STD = torch.tensor([0.229, 0.224, 0.225])", "STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)"),
        ),
        line=("MEAN = torch.tensor([0.485, 0.456, 0.406])", "return (images - MEAN) / STD"),
        says=("mean", "3", "view|reshape|[:, none|unsqueeze|1, 1"),
    ),
)
