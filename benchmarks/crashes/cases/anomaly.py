"""Crashes: anomaly mode that stops at values that are not finite."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "norm_of_zero_difference",
        "the derivative of the root at zero",
        kind="anomaly",
        style="script",
        source="Stack Overflow, Function 'PowBackward0' returned nan values",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
torch.autograd.set_detect_anomaly(True)
model = nn.Linear(3, 2, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(10, 3)
    x[4] = 0
    z = model(x)
    lengths = torch.sqrt((z**2).sum(dim=1))
    loss = (lengths - 1).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.sqrt((z**2).sum(dim=1))", "torch.sqrt((z**2).sum(dim=1) + 1e-8)"),),
        says=("nan", "sqrt"),
    ),
    crash(
        "log_inside_where",
        "where chooses the finite branch, but its gradient comes from both",
        kind="anomaly",
        style="custom_parts",
        source="GitHub issue, gradient of torch.where is nan",
        program="""
import torch
from torch import nn


class PoissonDeviance(nn.Module):
    def forward(self, rate, count):
        ratio = torch.where(count > 0, torch.log(count / rate), torch.zeros_like(rate))
        return 2 * (count * ratio - (count - rate)).mean()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 1), nn.ReLU())
criterion = PoissonDeviance()
optimizer = torch.optim.Adam(model.parameters())
with torch.autograd.detect_anomaly():
    for _ in range(3):
        x = torch.rand(30, 4) - 0.5
        count = torch.poisson(torch.ones(30, 1))
        loss = criterion(model(x), count * (x[:, :1] > 0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        repair=(
            ("ratio = torch.where(", "rate = rate + 1e-3\n        count = count + 1e-6\n        ratio = torch.where("),
        ),
        line=("ratio = torch.where(", "nn.Sequential(nn.Linear(4, 1), nn.ReLU())"),
        says=(
            "nan",
            "log",
            "where(|zero| 0 |infinit",
        ),
    ),
    crash(
        "acos_of_one",
        "the angle between equal directions has no finite derivative",
        kind="anomaly",
        style="hand_written_model",
        source="GitHub issue, gradient of acos at 1",
        program="""
import torch
from torch import nn


class AngularLoss(nn.Module):
    def forward(self, a, b):
        cosine = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))
        angle = torch.acos(cosine.clamp(-1, 1))
        return (angle * angle).mean()


class Rotation(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(2))

    def forward(self, x):
        return x @ self.matrix


torch.autograd.set_detect_anomaly(True)
model, criterion = Rotation(), AngularLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    loss = criterion(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("clamp(-1, 1)", "clamp(-0.999, 0.999)"),),
        says=("nan", "acos", "1|one|clamp"),
    ),
)
