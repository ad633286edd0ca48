"""Crashes: concatenated parts whose other axes differ."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "metadata_one_axis",
        "the extra feature has no second axis",
        kind="concatenation",
        style="script",
        source="Stack Overflow, Tensors must have same number of dimensions: got 2 and 1",
        program="""
import torch
from torch import nn

torch.manual_seed(0)


class ImageAndAge(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(6 + 1, 2)

    def forward(self, image, age):
        x1 = self.cnn(image)
        x = torch.cat((x1, age), dim=1)
        return self.fc(x)


model = ImageAndAge()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    image, age = torch.randn(10, 1, 12, 12), torch.rand(10)
    label = (age > 0.5).long()
    loss = nn.functional.cross_entropy(model(image, age), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.cat((x1, age), dim=1)", "torch.cat((x1, age.unsqueeze(1)), dim=1)"),),
        line=("torch.cat((x1, age), dim=1)", "torch.rand(10)"),
        says=("age", "unsqueeze", "1"),
    ),
    crash(
        "unet_odd_input",
        "an odd image size makes the skip connection larger than the upsampled map",
        kind="concatenation",
        style="hand_written_model",
        source="discuss.pytorch.org, U-Net sizes of tensors must match except in dimension 1",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc1 = nn.Conv2d(1, 8, 3, padding=1)
        self.enc2 = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, kernel_size=2, stride=2)
        self.dec = nn.Conv2d(16, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skip = F.relu(self.enc1(x))
        deep = F.relu(self.enc2(F.max_pool2d(skip, 2)))
        up = self.up(deep)
        merged = torch.cat([up, skip], dim=1)
        return self.out(F.relu(self.dec(merged)))


torch.manual_seed(0)
model = TinyUNet()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    scan = torch.rand(2, 1, 45, 45)
    loss = F.mse_loss(model(scan), scan)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("        up = self.up(deep)\n", "        up = F.interpolate(self.up(deep), size=skip.shape[2:])\n"),),
        line=(
            "up = self.up(deep)",
            "torch.cat([up, skip], dim=1)",
            "self.up = nn.ConvTranspose2d",
            "torch.rand(2, 1, 45, 45)",
        ),
        says=(
            "44",
            "45",
            "skip|interpolate|odd|upsampl|`up`|pool",
        ),
    ),
    crash(
        "inception_missing_padding",
        "one branch of an inception block has no padding",
        kind="concatenation",
        style="trainer",
        source="discuss.pytorch.org, inception branches",
        program="""
import torch
from torch import nn


class Inception(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.one = nn.Conv2d(n_in, 8, kernel_size=1)
        self.three = nn.Conv2d(n_in, 8, kernel_size=3, padding=1)
        self.five = nn.Conv2d(n_in, 8, kernel_size=5, padding=1)

    def forward(self, x):
        branches = [self.one(x), self.three(x), self.five(x)]
        return torch.cat(branches, 1)


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(Inception(3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 3))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, steps):
        for _ in range(steps):
            x, y = torch.randn(6, 3, 20, 20), torch.randint(3, (6,))
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer().train(3)
""",
        repair=(("kernel_size=5, padding=1", "kernel_size=5, padding=2"),),
        line=("kernel_size=5, padding=1", "torch.cat(branches, 1)"),
        says=("five|padding", "18", "20"),
    ),
    crash(
        "class_token_not_expanded",
        "the class token is not repeated for the batch",
        kind="concatenation",
        style="functional",
        source="Stack Overflow, class token of a vision transformer",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
dim = 16
token = torch.zeros(1, 1, dim, requires_grad=True)
mix = torch.randn(dim, dim, requires_grad=True)
out = torch.randn(dim, 4, requires_grad=True)


def attend(x):
    weights = torch.softmax(x @ mix @ x.transpose(1, 2) / dim, dim=-1)
    return x + weights @ x


def forward(patches):
    x = torch.cat([token, patches], dim=1)
    return attend(x)[:, 0] @ out


optimizer = torch.optim.Adam([token, mix, out], lr=0.01)
for _ in range(3):
    patches, labels = torch.randn(7, 9, dim), torch.randint(4, (7,))
    loss = F.cross_entropy(forward(patches), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("torch.cat([token, patches], dim=1)", "torch.cat([token.expand(len(patches), -1, -1), patches], dim=1)"),
        ),
        says=("token", "expand|repeat", "7"),
    ),
)
