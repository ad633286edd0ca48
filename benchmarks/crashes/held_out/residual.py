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
)
