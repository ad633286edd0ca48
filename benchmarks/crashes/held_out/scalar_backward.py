"""Crashes: backward from a tensor of more than one element."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "sample_weights_not_averaged",
        "losses are weighted per sample and never averaged",
        kind="scalar_backward",
        style="custom_parts",
        source="discuss.pytorch.org, per sample weights",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class WeightedLoss(nn.Module):
    def forward(self, logits, labels, weights):
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        return losses * weights


torch.manual_seed(0)
data = TensorDataset(torch.randn(30, 4), torch.randint(2, (30,)), torch.rand(30))
model, criterion = nn.Linear(4, 2), WeightedLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for x, labels, weights in DataLoader(data, batch_size=10):
    loss = criterion(model(x), labels, weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return losses * weights", "return (losses * weights).mean()"),),
        line=(
            "return losses * weights",
            "loss.backward()",
            "loss = criterion(model(x), labels, weights)",
            'reduction="none"',
        ),
        says=("mean|sum", "scalar|10|one value|single"),
    ),
    crash(
        "backward_from_predictions",
        "backward starts at the predictions instead of the loss",
        kind="scalar_backward",
        style="trainer",
        source="Stack Overflow, output.backward() on a batch",
        program="""
import torch
from torch import nn


class Learner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1))
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=1e-3)
        self.history = []

    def fit(self, x, y, epochs):
        for _ in range(epochs):
            output = self.net(x)
            loss = nn.functional.mse_loss(output, y)
            self.optimizer.zero_grad()
            output.backward()
            self.optimizer.step()
            self.history.append(loss.item())


torch.manual_seed(0)
Learner().fit(torch.randn(25, 5), torch.randn(25, 1), epochs=3)
""",
        repair=(("output.backward()", "loss.backward()"),),
        says=(
            "scalar|25|one value|single",
            "`output`|output.backward|loss.backward|`loss`|25|predict",
        ),
    ),
    crash(
        "gradient_of_ones_with_axis",
        "the gradients given to autograd have an axis that the losses do not have",
        kind="scalar_backward",
        style="functional",
        source="GitHub issue, Mismatch in shape: grad_output[0] has a shape of torch.Size([1])",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def angle_losses(features, heads, angles):
    return [F.mse_loss(head(features).squeeze(1), angles[:, i]) for i, head in enumerate(heads)]


def backward_all(losses):
    seeds = [torch.ones(1) for _ in losses]
    torch.autograd.backward(losses, seeds)


torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 12), nn.ReLU())
heads = nn.ModuleList([nn.Linear(12, 1) for _ in range(3)])
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=1e-3)
for _ in range(3):
    losses = angle_losses(body(torch.randn(10, 8)), heads, torch.randn(10, 3))
    optimizer.zero_grad()
    backward_all(losses)
    optimizer.step()
""",
        repair=(("torch.ones(1) for _ in losses", "torch.ones_like(loss) for loss in losses"),),
        line=("torch.ones(1) for _ in losses", "torch.autograd.backward(losses, seeds)"),
        says=(
            "shape|scalar",
            "seeds|ones",
        ),
    ),
)
