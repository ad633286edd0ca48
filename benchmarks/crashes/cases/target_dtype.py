"""Crashes: targets whose dtype the loss does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "float_class_targets",
        "class numbers read from a text file are floats",
        kind="target_dtype",
        style="script",
        source="Stack Overflow, expected scalar type Long but found Float",
        program="""
import io

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
text = io.StringIO("0.1 1.2 0\\n2.0 0.3 1\\n1.1 1.0 2\\n0.4 0.2 0\\n" * 8)
rows = np.loadtxt(text, dtype=np.float32)
x = torch.from_numpy(rows[:, :2])
y = torch.from_numpy(rows[:, 2])

model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(5):
    loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.from_numpy(rows[:, 2])", "torch.from_numpy(rows[:, 2]).long()"),),
        line=("torch.from_numpy(rows[:, 2])", "loss = loss_fn(model(x), y)"),
        says=(
            "long()|int64|class",
            "float",
        ),
    ),
    crash(
        "int32_class_targets",
        "NumPy gives class numbers of 32 bits",
        kind="target_dtype",
        style="custom_parts",
        source="GitHub issue, nll_loss_forward not implemented for Int",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spots(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.points = rng.normal(size=(n, 2)).astype("float32")
        self.quadrants = (self.points[:, 0] > 0).astype("int32") + 2 * (self.points[:, 1] > 0).astype("int32")

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        return self.points[i], self.quadrants[i]


class FocalLoss(nn.Module):
    def forward(self, logits, targets):
        log_p = torch.log_softmax(logits, dim=1)
        weights = (1 - log_p.exp()) ** 2
        return nn.functional.nll_loss(weights * log_p, targets)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
criterion = FocalLoss()
for points, quadrants in DataLoader(Spots(60), batch_size=15):
    loss = criterion(model(points), quadrants)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return self.points[i], self.quadrants[i]", "return self.points[i], int(self.quadrants[i])"),),
        line=(
            "return self.points[i], self.quadrants[i]",
            "self.quadrants = ",
            "nll_loss(weights * log_p, targets)",
            "criterion(model(points), quadrants)",
        ),
        says=("long|int64", "int32"),
    ),
    crash(
        "bool_difference_loss",
        "two tensors of truth values are subtracted",
        kind="target_dtype",
        style="functional",
        source="Stack Overflow, Subtraction, the - operator, with two bool tensors is not supported",
        program="""
import torch
from torch import nn


def penalty(scores, is_positive, was_positive):
    flips = (is_positive - was_positive).abs().float()
    return (torch.relu(scores) * flips).mean()


def step(model, optimizer, x, y, previous):
    scores = model(x).squeeze(1)
    fit = nn.functional.binary_cross_entropy_with_logits(scores, y.float())
    loss = fit + 0.1 * penalty(scores, y, previous)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return scores.detach() > 0


torch.manual_seed(0)
x = torch.randn(50, 3)
y = x[:, 0] > 0
previous = torch.zeros(50, dtype=torch.bool)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    previous = step(model, optimizer, x, y, previous)
""",
        repair=(("(is_positive - was_positive).abs().float()", "(is_positive ^ was_positive).float()"),),
        line=("(is_positive - was_positive).abs().float()",),
        says=(
            "bool",
            "is_positive|was_positive",
        ),
    ),
)
