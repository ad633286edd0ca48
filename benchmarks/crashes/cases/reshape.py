"""Crashes: reshapes whose number of elements does not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "view_minus_one_batch",
        "view(-1, n) with a wrong n changes the size of the batch",
        kind="reshape",
        style="script",
        source="Stack Overflow, Expected input batch_size (324) to match target batch_size (4)",
        program="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        x = x.view(-1, 16 * 5 * 5)
        return self.fc1(x)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    inputs, labels = torch.rand(4, 3, 32, 32), torch.randint(10, (4,))
    loss = F.cross_entropy(net(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("x = F.relu(self.conv2(x))", "x = F.max_pool2d(F.relu(self.conv2(x)), 2)"),),
        line=("x = F.relu(self.conv2(x))", "x = x.view(-1, 16 * 5 * 5)", "nn.Linear(16 * 5 * 5, 10)"),
        says=("view", "16", "4"),
    ),
    crash(
        "view_after_transpose",
        "view of a transposed tensor",
        kind="reshape",
        style="reshape_by_hand",
        source="Stack Overflow, view size is not compatible with input tensor's size and stride",
        program="""
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        h = self.project(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        weights = torch.softmax(h @ h.transpose(2, 3), dim=-1)
        mixed = (weights @ h).transpose(1, 2)
        return self.out(mixed.view(b, n, d))


torch.manual_seed(0)
model = Heads()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(5, 6, 24)
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("mixed.view(b, n, d)", "mixed.reshape(b, n, d)"),),
        line=("mixed.view(b, n, d)", "mixed = (weights @ h).transpose(1, 2)"),
        says=(
            "contiguous|reshape",
            "transpose|mixed",
        ),
    ),
    crash(
        "patches_do_not_divide_image",
        "the size of the patches does not divide the image",
        kind="reshape",
        style="hand_written_model",
        source="GitHub issue, vision transformer patches",
        program="""
import torch
from torch import nn


class MaskedPatches(nn.Module):
    def __init__(self, size, patch):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, 20)
        self.head = nn.Linear(20, 4)

    def patchify(self, images):
        b, c, h, w = images.shape
        p = self.patch
        grid = images.reshape(b, c, h // p, p, w // p, p)
        return grid.permute(0, 2, 4, 1, 3, 5).reshape(b, (h // p) * (w // p), c * p * p)

    def forward(self, images):
        return self.head(self.embed(self.patchify(images)).relu().mean(1))


torch.manual_seed(0)
model = MaskedPatches(size=28, patch=8)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    images, labels = torch.rand(6, 3, 28, 28), torch.randint(4, (6,))
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("patch=8)", "patch=7)"),),
        line=("patch=8)", "grid = images.reshape(", "torch.rand(6, 3, 28, 28)"),
        says=("28", "8"),
    ),
    crash(
        "decoder_seed_reshape",
        "the decoder reshapes its seed to a map of another size",
        kind="reshape",
        style="lightning_like",
        source="discuss.pytorch.org, convolutional VAE decoder shape is invalid for input of size",
        program="""
import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(256, 2 * latent))
        self.seed = nn.Linear(latent, 16 * 4 * 4)
        self.decode = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 2, stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 1, 2, stride=2)
        )

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        seed = self.seed(z).view(-1, 16, 7, 7)
        return self.decode(seed), mean, log_variance

    def training_step(self, x):
        output, mean, log_variance = self(x)
        divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(1).mean()
        return nn.functional.mse_loss(output, x) + 1e-3 * divergence


torch.manual_seed(0)
module = VAE()
optimizer = torch.optim.Adam(module.parameters())
for _ in range(3):
    loss = module.training_step(torch.rand(5, 1, 16, 16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("view(-1, 16, 7, 7)", "view(-1, 16, 4, 4)"),),
        line=("view(-1, 16, 7, 7)", "self.seed = nn.Linear(latent, 16 * 4 * 4)"),
        says=("1280|256", "784|7", "seed|view"),
    ),
)
