"""Crashes: a missing batch axis, residuals, orders of axes, missing arguments, gradients of other shapes."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "preview_of_single_image",
        "after training, a picture of the data set goes to the model without an axis of the batch",
        kind="shapes",
        style="notebook_cells",
        source="Stack Overflow, expected 4D input (got 3D input), single image inference",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
dataset = TensorDataset(torch.rand(24, 3, 10, 10), torch.randint(2, (24,)))
# %%
model = nn.Sequential(
    nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2)
)
optimizer = torch.optim.Adam(model.parameters())
for images, labels in DataLoader(dataset, batch_size=8):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# %%
image, label = dataset[5]
# %%
model.eval()
with torch.no_grad():
    scores = model(image)
print(label.item(), scores.softmax(-1))
""",
        repair=(("scores = model(image)", "scores = model(image.unsqueeze(0))"),),
        line=("scores = model(image)", "image, label = dataset[5]"),
        says=("image", "unsqueeze|[none]|batch"),
    ),
    crash(
        "mask_lost_in_sequential",
        "layers that take a mask stand in a Sequential, which hands on one input",
        kind="shapes",
        style="typed",
        source="Stack Overflow, Sequential.forward() takes 2 positional arguments but 3 were given",
        program="""
import torch
from torch import Tensor, nn


class MaskedMix(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        weight = mask.unsqueeze(-1)
        mean = (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        return self.linear(torch.cat([x, mean.expand_as(x)], dim=-1)).relu()


class SetModel(nn.Module):
    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[MaskedMix(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.layers(x, mask)
        return self.head((x * mask.unsqueeze(-1)).sum(1))


torch.manual_seed(0)
model = SetModel(4, 2)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x, mask = torch.randn(6, 5, 4), (torch.arange(5) < torch.randint(1, 6, (6, 1))).float()
    loss = nn.functional.mse_loss(model(x, mask), mask.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("x = self.layers(x, mask)", "for layer in self.layers:\n            x = layer(x, mask)"),),
        line=("x = self.layers(x, mask)", "self.layers = nn.Sequential("),
        says=("layers", "mask|one input|two inputs|single input", "loop|for |modulelist|one input|single input"),
    ),
    crash(
        "teacher_has_more_classes",
        "the teacher of a distillation knows more classes than its student",
        kind="shapes",
        style="trainer",
        source="Stack Overflow, KLDivLoss, The size of tensor a must match the size of tensor b",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


def mlp(width, classes):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, classes))


class Distiller:
    def __init__(self, teacher, student, temperature=2.0):
        self.teacher, self.student, self.temperature = teacher.eval(), student, temperature
        self.optimizer = torch.optim.Adam(student.parameters())

    def soft_loss(self, x):
        with torch.no_grad():
            goal = F.softmax(self.teacher(x) / self.temperature, dim=1)
        return F.kl_div(F.log_softmax(self.student(x) / self.temperature, dim=1), goal, reduction="batchmean")

    def step(self, x, y):
        loss = F.cross_entropy(self.student(x), y) + self.soft_loss(x)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


TEACHER_CLASSES, STUDENT_CLASSES = 12, 10

torch.manual_seed(0)
distiller = Distiller(mlp(64, TEACHER_CLASSES), mlp(16, STUDENT_CLASSES))
for _ in range(3):
    distiller.step(torch.randn(7, 8), torch.randint(10, (7,)))
""",
        repair=(
            (
                "goal = F.softmax(self.teacher(x) / self.temperature, dim=1)",
                "goal = F.softmax(self.teacher(x)[:, :10] / self.temperature, dim=1)",
            ),
        ),
        line=(
            "goal = F.softmax(self.teacher(x) / self.temperature, dim=1)",
            "return F.kl_div(",
            "TEACHER_CLASSES, STUDENT_CLASSES = 12, 10",
            "Distiller(mlp(64, TEACHER_CLASSES), mlp(16, STUDENT_CLASSES))",
        ),
        says=("12", "10", "teacher|goal|student"),
    ),
)
