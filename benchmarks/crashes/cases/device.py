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
    crash(
        "teacher_left_behind",
        "the teacher of a distillation was never moved",
        kind="device",
        style="typed",
        source="discuss.pytorch.org, knowledge distillation on two devices",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Distillation:
    device: str = "meta"
    temperature: float = 2.0


def distance(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    target = (teacher / temperature).softmax(1)
    return nn.functional.kl_div((student / temperature).log_softmax(1), target, reduction="batchmean")


torch.manual_seed(0)
config = Distillation()
teacher = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)).eval()
student = nn.Linear(6, 3).to(config.device)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(12, 6, device=config.device)
    with torch.no_grad():
        wanted = teacher(x)
    loss = distance(student(x), wanted, config.temperature)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Linear(32, 3)).eval()", "nn.Linear(32, 3)).eval().to(config.device)"),),
        line=("nn.Linear(32, 3)).eval()", "wanted = teacher(x)"),
        says=("teacher", "cpu", "device"),
    ),
    crash(
        "positions_made_on_cpu",
        "the positions are made in forward without a device and added to the tokens",
        kind="device",
        style="reshape_by_hand",
        source="GitHub issue, torch.arange in forward",
        program="""
import torch
from torch import nn


class GridEncoder(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.project = nn.Linear(3, dim)
        self.rates = nn.Parameter(torch.rand(dim))
        self.head = nn.Linear(dim, 2)

    def forward(self, images):
        b, c, h, w = images.shape
        tokens = self.project(images.permute(0, 2, 3, 1).reshape(b, h * w, c))
        places = torch.arange(h * w, dtype=torch.float32).reshape(h * w, 1).expand(-1, tokens.shape[2])
        return self.head((tokens + places * self.rates).mean(1))


device = "meta"
model = GridEncoder().to(device)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    images, labels = torch.rand(3, 3, 4, 4, device=device), torch.randint(2, (3,), device=device)
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "torch.arange(h * w, dtype=torch.float32)",
                "torch.arange(h * w, dtype=torch.float32, device=images.device)",
            ),
        ),
        line=("torch.arange(h * w, dtype=torch.float32)", "places * self.rates"),
        says=("places|arange", "cpu", "device"),
    ),
)
