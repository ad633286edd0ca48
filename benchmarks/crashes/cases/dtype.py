"""Crashes: tensors of a type that an operation does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "scaler_gives_doubles",
        "features are scaled by numpy and stay of 64 bits",
        kind="dtype",
        style="custom_parts",
        source="Stack Overflow, mat1 and mat2 must have the same dtype, but got Double and Float",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class StandardScaler:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        return self

    def transform(self, x):
        return (x - self.mean) / self.std


class Houses(Dataset):
    def __init__(self, n=40):
        rng = np.random.default_rng(0)
        x = rng.uniform(20, 200, (n, 3))
        self.x = torch.from_numpy(StandardScaler().fit(x).transform(x))
        self.y = torch.tensor(x.sum(1, keepdims=True) / 100, dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for x, y in DataLoader(Houses(), batch_size=10, shuffle=True):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "torch.from_numpy(StandardScaler().fit(x).transform(x))",
                "torch.from_numpy(StandardScaler().fit(x).transform(x)).float()",
            ),
        ),
        line=("self.x = torch.from_numpy(", "model(x), y)", "return self.x[i], self.y[i]", "x = rng.uniform("),
        says=("float64|double", "float32|.float()"),
    ),
    crash(
        "graph_sum_into_counts",
        "messages of a graph are added into a tensor that was made like the edges",
        kind="dtype",
        style="script",
        source="GitHub issue, scatter_add_ expected self.dtype to be equal to src.dtype",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
n_nodes, dim = 6, 4
edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
features = torch.randn(n_nodes, dim)
labels = torch.tensor([0, 1, 0, 1, 0, 1])
message, head = nn.Linear(dim, dim), nn.Linear(dim, 2)
optimizer = torch.optim.Adam([*message.parameters(), *head.parameters()], lr=0.01)

for _ in range(3):
    source, target = edges
    sent = message(features)[source]
    received = edges.new_zeros(n_nodes, dim)
    received = received.scatter_add(0, target.unsqueeze(1).expand(-1, dim), sent)
    loss = nn.functional.cross_entropy(head(received.relu()), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("edges.new_zeros(n_nodes, dim)", "sent.new_zeros(n_nodes, dim)"),),
        line=("received = edges.new_zeros(n_nodes, dim)", "received = received.scatter_add("),
        says=("received", "long|int64", "float"),
    ),
)
