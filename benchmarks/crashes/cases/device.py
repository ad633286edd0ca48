"""Crashes: tensors on two devices."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "class_weights_on_cpu",
        "the weights of the classes stay on the CPU",
        kind="device",
        style="functional",
        source="Stack Overflow, weighted CrossEntropyLoss on the GPU",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def class_weights(labels, n_classes):
    counts = torch.bincount(labels, minlength=n_classes)
    return counts.sum() / (n_classes * counts.float())


def train(model, x, y, device):
    model.to(device)
    weights = class_weights(y, 3)
    x, y = x.to(device), y.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        loss = F.cross_entropy(model(x), y, weight=weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(nn.Linear(5, 3), torch.randn(60, 5), torch.arange(60) % 3, "meta")
""",
        repair=(("weights = class_weights(y, 3)", "weights = class_weights(y, 3).to(device)"),),
        line=("weights = class_weights(y, 3)", "weight=weights)"),
        says=("weight", "cpu"),
    ),
    crash(
        "branch_in_a_list_not_moved",
        "layers in a plain list are not moved with the module",
        kind="device",
        style="lightning_like",
        source="discuss.pytorch.org, list of layers and cuda",
        program="""
import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, n_tasks=3):
        super().__init__()
        self.trunk = nn.Linear(8, 16)
        self.heads = [nn.Linear(16, 1) for _ in range(n_tasks)]

    def forward(self, x):
        shared = torch.relu(self.trunk(x))
        return torch.cat([head(shared) for head in self.heads], dim=1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.mse_loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


device = torch.device("meta")
module = MultiTask().to(device)
optimizer = module.configure_optimizers()
for i in range(3):
    batch = torch.randn(10, 8, device=device), torch.randn(10, 3, device=device)
    loss = module.training_step(batch, i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "self.heads = [nn.Linear(16, 1) for _ in range(n_tasks)]",
                "self.heads = nn.ModuleList([nn.Linear(16, 1) for _ in range(n_tasks)])",
            ),
        ),
        line=("self.heads = [nn.Linear(16, 1)", "head(shared) for head in self.heads"),
        says=("modulelist", "head"),
    ),
)
