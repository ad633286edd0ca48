"""Crashes: operands whose shapes do not broadcast."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "lora_scale_axes",
        "the update of an adapter is transposed and does not fit the weight",
        kind="broadcast",
        style="typed",
        source="GitHub issue, low-rank adapter added to a weight",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class LoraConfig:
    rank: int = 4
    alpha: float = 8.0


class LoraLinear(nn.Module):
    def __init__(self, base: nn.Linear, config: LoraConfig) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scale = config.alpha / config.rank
        self.down = nn.Parameter(torch.randn(config.rank, base.in_features) * 0.02)
        self.up = nn.Parameter(torch.zeros(base.out_features, config.rank))

    def forward(self, x: Tensor) -> Tensor:
        update = self.scale * (self.up @ self.down).T
        return nn.functional.linear(x, self.base.weight + update, self.base.bias)


torch.manual_seed(0)
model = nn.Sequential(LoraLinear(nn.Linear(12, 5), LoraConfig()), nn.ReLU(), nn.Linear(5, 2))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(9, 12)), torch.randint(2, (9,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("(self.up @ self.down).T", "(self.up @ self.down)"),),
        line=("(self.up @ self.down).T", "self.base.weight + update"),
        says=("12", "5", "update|.t|transpos"),
    ),
    crash(
        "gray_image_normalized_in_place",
        "one gray image among color images is normalized in place with three means",
        kind="broadcast",
        style="custom_parts",
        source="GitHub issue, output with shape [1, 227, 227] doesn't match the broadcast shape [3, 227, 227]",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN = torch.tensor([0.48, 0.45, 0.40]).view(3, 1, 1)


class Birds(Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(0)
        self.images = [torch.rand(1 if i == 10 else 3, 14, 14, generator=generator) for i in range(n)]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index].clone()
        image.sub_(MEAN)
        return image, index % 2


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for images, labels in DataLoader(Birds(16), batch_size=4):
    loss = nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("image = self.images[index].clone()", "image = self.images[index].expand(3, -1, -1).clone()"),),
        line=("image = self.images[index].clone()", "image.sub_(MEAN)", "self.images = ["),
        says=("3", "1", "channel|image|mean"),
    ),
    crash(
        "more_objects_than_queries",
        "a picture has more objects than the detector has queries",
        kind="broadcast",
        style="hand_written_model",
        source="GitHub issue, value tensor of shape [92] cannot be broadcast to indexing result of shape [40]",
        program="""
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, n_queries=8, n_classes=4):
        super().__init__()
        self.n_queries = n_queries
        self.n_classes = n_classes
        self.queries = nn.Parameter(torch.randn(n_queries, 10))
        self.classify = nn.Linear(10, n_classes + 1)

    def forward(self, features):
        return self.classify(self.queries + features.unsqueeze(1))

    def loss(self, features, labels):
        logits = self(features)
        target = torch.full(logits.shape[:2], self.n_classes)
        for row, objects in enumerate(labels):
            target[row, : len(objects)] = objects
        return nn.functional.cross_entropy(logits.transpose(1, 2), target)


torch.manual_seed(0)
detector = Detector()
optimizer = torch.optim.AdamW(detector.parameters(), lr=1e-3)
for n_objects in (3, 8, 11):
    labels = [torch.randint(4, (n_objects,)), torch.randint(4, (2,))]
    loss = detector.loss(torch.randn(2, 10), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("detector = Detector()", "detector = Detector(n_queries=12)"),),
        line=("detector = Detector()", "n_queries=8, n_classes=4", "target[row, : len(objects)] = objects"),
        says=(
            "8",
            "11",
            "target[|`target`|queries|objects",
        ),
    ),
)
