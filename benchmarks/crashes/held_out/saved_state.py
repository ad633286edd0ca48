"""Crashes: states that do not fit what they are loaded into, and copies that cannot be made."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "average_copies_a_cached_output",
        "a model that keeps its last features is copied for an average of its weights",
        kind="saved_state",
        style="custom_parts",
        source="GitHub issue, Only Tensors created explicitly by the user support the deepcopy protocol",
        program="""
import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)
        self.features = None

    def forward(self, x):
        self.features = self.body(x).relu()
        return self.head(self.features)


class Average:
    def __init__(self, decay=0.9):
        self.decay, self.model = decay, None

    @torch.no_grad()
    def update(self, model):
        if self.model is None:
            self.model = copy.deepcopy(model)
        for mine, other in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(other, 1 - self.decay)


torch.manual_seed(0)
net, average = Net(), Average()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(2, (8,)))
    loss = loss + 0.01 * net.features.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(net)
""",
        repair=(
            (
                "    optimizer.step()\n    average.update(net)",
                "    optimizer.step()\n    net.features = None\n    average.update(net)",
            ),
        ),
        line=("average.update(net)", "self.features = self.body(x).relu()", "self.model = copy.deepcopy(model)"),
        says=("features", "detach|none|before"),
    ),
)
