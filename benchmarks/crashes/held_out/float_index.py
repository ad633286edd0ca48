"""Crashes: floats used as indices."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "embedding_of_float_tokens",
        "torch.Tensor makes floats of token ids",
        kind="float_index",
        style="script",
        source="Stack Overflow, embedding: Expected tensor for argument #1 'indices'",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
sentences = [[4, 8, 2, 9], [1, 1, 3, 7], [5, 6, 2, 0]]
labels = torch.tensor([0, 1, 0])

inputs = torch.Tensor(sentences)
model = nn.Sequential(nn.Embedding(10, 6), nn.Flatten(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.Tensor(sentences)", "torch.tensor(sentences)"),),
        line=("torch.Tensor(sentences)", "cross_entropy(model(inputs), labels)"),
        says=(
            "long|int64",
            "torch.tensor(|inputs|.long()|0.weight|module 0",
        ),
    ),
    crash(
        "slice_at_a_fraction",
        "the split point between training and test rows is a float",
        kind="float_index",
        style="notebook_cells",
        source="Stack Overflow, slice indices must be integers",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
data = torch.randn(100, 6)
target = data.sum(1, keepdim=True)
# %%
split = 0.8 * len(data)
x_train, y_train = data[:split], target[:split]
x_test, y_test = data[split:], target[split:]
# %%
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    loss = nn.functional.mse_loss(model(x_train), y_train)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(nn.functional.mse_loss(model(x_test), y_test).item())
""",
        repair=(("split = 0.8 * len(data)", "split = int(0.8 * len(data))"),),
        line=("split = 0.8 * len(data)", "x_train, y_train = data[:split]"),
        says=("80.0|float", "int"),
    ),
    crash(
        "width_divided_to_float",
        "the width of a layer is computed with / and is a float",
        kind="float_index",
        style="typed",
        source="discuss.pytorch.org, empty() received an invalid combination of arguments",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class BottleneckConfig:
    dim: int = 32
    reduction: int = 4


class SqueezeExcite(nn.Module):
    def __init__(self, config: BottleneckConfig) -> None:
        super().__init__()
        inner = config.dim / config.reduction
        self.down = nn.Linear(config.dim, inner)
        self.up = nn.Linear(inner, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))
        return x * scale[:, :, None, None]


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 32, 3), SqueezeExcite(BottleneckConfig()), nn.Flatten(), nn.Linear(32 * 36, 2))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("config.dim / config.reduction", "config.dim // config.reduction"),),
        line=("config.dim / config.reduction", "self.down = nn.Linear(config.dim, inner)"),
        says=(
            "8.0|inner|reduction",
            "//|int(|integer",
        ),
    ),
)
