"""Crashes: tensors of a type that an operation does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "half_backbone_float_images",
        "the frozen backbone is turned to half precision to save memory, the images are not",
        kind="dtype",
        style="hand_written_model",
        source="GitHub issue, Input type (float) and bias type (c10::Half) should be the same",
        program="""
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)

    def forward(self, x):
        return self.conv(x).relu().mean(dim=(2, 3))


class Probe(nn.Module):
    def __init__(self, backbone, classes=3):
        super().__init__()
        self.backbone = backbone.half().requires_grad_(False)
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.backbone(images).float())


torch.manual_seed(0)
model = Probe(Backbone())
optimizer = torch.optim.Adam(model.head.parameters())
for _ in range(3):
    images, labels = torch.rand(4, 3, 12, 12), torch.randint(3, (4,))
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.backbone(images).float()", "self.backbone(images.half()).float()"),),
        line=("self.head(self.backbone(images).float())", "self.backbone = backbone.half()"),
        says=(".half()|float16|half precision", "images|input", "backbone"),
    ),
    crash(
        "accuracy_is_mean_of_bools",
        "the accuracy is the mean of comparisons",
        kind="dtype",
        style="functional",
        source="Stack Overflow, mean(): could not infer output dtype, input dtype must be floating point",
        program="""
import torch
from torch import nn


def accuracy(scores, labels):
    hits = scores.argmax(dim=1) == labels
    return hits.mean()


def run_epoch(model, optimizer, batches):
    history = []
    for x, y in batches:
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(accuracy(scores, y).item())
    return sum(history) / len(history)


torch.manual_seed(0)
model = nn.Linear(5, 3)
batches = [(torch.randn(10, 5), torch.randint(3, (10,))) for _ in range(4)]
run_epoch(model, torch.optim.SGD(model.parameters(), lr=0.1), batches)
""",
        repair=(("hits.mean()", "hits.float().mean()"),),
        line=("return hits.mean()", "hits = scores.argmax(dim=1) == labels"),
        says=("bool", ".float()|to(torch.float|dtype=torch.float|dtype=float"),
    ),
)
