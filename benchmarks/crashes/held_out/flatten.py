"""Crashes: flattening that is missing, comes too early or takes the batch axis with it."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "flatten_whole_batch",
        "flatten without start_dim takes the batch axis with it",
        kind="flatten",
        style="lightning_like",
        source="discuss.pytorch.org, torch.flatten and batch size",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


class LitLeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.fc1 = nn.Linear(6 * 12 * 12, 60)
        self.fc2 = nn.Linear(60, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = torch.flatten(x)
        x = F.relu(self.fc1(x))
        return self.fc2(x)

    def training_step(self, batch):
        images, digits = batch
        return F.cross_entropy(self(images), digits)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def run(module, loader):
    optimizer = module.configure_optimizers()
    for batch in loader:
        loss = module.training_step(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
loader = [(torch.rand(20, 1, 28, 28), torch.randint(10, (20,))) for _ in range(3)]
run(LitLeNet(), loader)
""",
        repair=(("torch.flatten(x)", "torch.flatten(x, 1)"),),
        says=("flatten", "batch", "864"),
    ),
    crash(
        "squeeze_instead_of_flatten",
        "squeeze does not flatten maps that are larger than one pixel",
        kind="flatten",
        style="functional",
        source="discuss.pytorch.org, squeeze after average pooling",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def make(width=8):
    conv = nn.Conv2d(3, width, 3, stride=2)
    head = nn.Linear(width * 4, 5)
    return conv, head


def forward(conv, head, images):
    pooled = F.adaptive_avg_pool2d(F.relu(conv(images)), 2).squeeze()
    return head(pooled)


torch.manual_seed(0)
conv, head = make()
optimizer = torch.optim.SGD([*conv.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    loss = F.cross_entropy(forward(conv, head, torch.rand(7, 3, 15, 15)), torch.randint(5, (7,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=((".squeeze()", ".flatten(1)"),),
        line=(".squeeze()", "return head(pooled)"),
        says=("flatten", "32"),
    ),
)
