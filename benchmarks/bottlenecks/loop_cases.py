"""Python loops inside a model, which the estimate of their gain was corrected on, and balanced programs with a loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.bottlenecks.programs import (
    CLASSES,
    FEATURES,
    Case,
    Change,
    Program,
    cached,
    mlp,
    plant,
)

CASES: list[Case] = []


@plant(CASES, "module")
def heads_one_by_one(change: Change) -> Program:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inputs, self.outputs = nn.Linear(FEATURES, 3 * 512), nn.Linear(512, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.inputs(x).view(len(x), 3, 64, 8).unbind(1)
            if change.fixed:
                return self.outputs((q @ k.transpose(1, 2)).softmax(-1).bmm(v).flatten(1))
            heads = []
            for i in range(len(x)):
                scores = (q[i] @ k[i].T).softmax(-1)  # here
                heads.append(scores @ v[i])  # here
            return self.outputs(torch.stack(heads).flatten(1))

    return Program(Heads(), cached(64))


@plant(CASES)
def balanced_large_layers_behind_a_loop(change: Change) -> Program:
    class Clipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(width=1024)

        def forward(self, x: Tensor) -> Tensor:
            if change.fixed:
                return self.body(x / x.norm(dim=1, keepdim=True).clamp(min=1.0))
            rows = [row / row.norm().clamp(min=1.0) for row in x * 1.0]
            return self.body(torch.stack(rows))

    return Program(Clipped(), cached(256))


@plant(CASES, "module")
def loop_behind_a_layer(change: Change) -> Program:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = mlp(width=1024, outputs=128), nn.Linear(128, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.body(x)
            if change.fixed:
                return self.head(hidden.sigmoid() * hidden.tanh())
            gated = [hidden[:, i].sigmoid() * hidden[:, i].tanh() for i in range(hidden.shape[1])]  # here
            return self.head(torch.stack(gated, 1))

    return Program(Gated(), cached(128))


@plant(CASES, "module")
def distances_pair_by_pair(change: Change) -> Program:
    class Prototypes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.prototypes = mlp(width=256, outputs=64), nn.Parameter(torch.randn(CLASSES * 16, 64))

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.body(x)
            if change.fixed:
                distances = (hidden[:, None] - self.prototypes).square().sum(-1)
            else:
                columns = []
                for prototype in self.prototypes:
                    columns.append((hidden - prototype).square().sum(-1))  # here
                distances = torch.stack(columns, 1)
            return -distances.view(len(x), CLASSES, 16).mean(-1)

    return Program(Prototypes(), cached(64))


@plant(CASES)
def balanced_cell_over_time(change: Change) -> Program:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inputs, self.head = nn.Linear(8, 64), nn.Linear(64, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            steps = x.view(len(x), 64, 8)
            if change.fixed:
                return self.head(self.inputs(steps).tanh().mean(1))
            total: Any = 0.0
            for t in range(steps.shape[1]):
                total = total + torch.tanh(self.inputs(steps[:, t]))
            return self.head(total / steps.shape[1])

    return Program(Recurrent(), cached(128, features=512))


@plant(CASES, "module")
def filters_of_single_images(change: Change) -> Program:
    class Filters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filters, self.head = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 256, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            images = x.view(-1, 1, 16, 16)
            if change.fixed:
                return self.head(self.filters(images).relu().flatten(1))
            maps = [self.filters(image[None]).relu() for image in images]  # here
            return self.head(torch.cat(maps).flatten(1))

    return Program(Filters(), cached(64, features=256))


@plant(CASES, "module")
def normalized_groups(change: Change) -> Program:
    class Groups(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(FEATURES, 1024), nn.Linear(1024, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x).view(len(x), 64, 16)
            if change.fixed:
                mean, spread = hidden.mean(-1, keepdim=True), hidden.std(-1, keepdim=True)
                return self.head(((hidden - mean) / (spread + 1e-3)).flatten(1))
            groups = []
            for i in range(64):
                part = hidden[:, i]
                groups.append((part - part.mean(-1, keepdim=True)) / (part.std(-1, keepdim=True) + 1e-3))  # here
            return self.head(torch.cat(groups, 1))

    return Program(Groups(), cached(128))
