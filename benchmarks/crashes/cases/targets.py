"""Crashes: losses that meet targets of another shape or type, and labels that are out of range."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "bce_targets_in_a_row",
        "the predictions of a binary classifier are a column, the targets of the table a row",
        kind="targets",
        style="script",
        source="discuss.pytorch.org, Using a target size that is different to the input size",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Churn(Dataset):
    def __init__(self, table):
        self.features = torch.tensor(table[:, :-1], dtype=torch.float32)
        self.targets = torch.tensor(table[:, -1], dtype=torch.float32)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.features[i], self.targets[i]


generator = np.random.default_rng(4)
table = generator.normal(size=(64, 8))
table[:, -1] = table[:, 0] > 0
loader = DataLoader(Churn(table), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 1))
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for features, targets in loader:
        logits = model(features)
        loss = loss_fn(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        repair=(("loss = loss_fn(logits, targets)", "loss = loss_fn(logits.squeeze(1), targets)"),),
        line=(
            "loss = loss_fn(logits, targets)",
            "logits = model(features)",
            "return self.features[i], self.targets[i]",
            "self.targets = torch.tensor(table[:, -1], dtype=torch.float32)",
        ),
        says=("squeeze|view|reshape|[:, none]|flatten",),
    ),
    crash(
        "labels_from_a_table_of_floats",
        "the labels come out of a float table and stay floats",
        kind="targets",
        style="functional",
        source="Stack Overflow, expected scalar type Long but found Float in CrossEntropyLoss",
        program="""
import io

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

TEXT = "\\n".join(f"{0.1 * i},{1 - 0.02 * i},{i % 7},{i % 3}" for i in range(48))


def read(text):
    table = np.loadtxt(io.StringIO(text), delimiter=",", dtype=np.float32)
    return torch.from_numpy(table[:, :3]), torch.from_numpy(table[:, 3])


def batches(x, y, size):
    order = torch.randperm(len(x))
    for rows in order.split(size):
        yield x[rows], y[rows]


def train(model, x, y, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for xb, yb in batches(x, y, 12):
            loss = F.cross_entropy(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


torch.manual_seed(0)
train(nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 3)), *read(TEXT), epochs=2)
""",
        repair=(("torch.from_numpy(table[:, 3])", "torch.from_numpy(table[:, 3]).long()"),),
        line=(
            "return torch.from_numpy(table[:, :3]), torch.from_numpy(table[:, 3])",
            "loss = F.cross_entropy(model(xb), yb)",
            "yield x[rows], y[rows]",
        ),
        says=("long()|torch.long|int64",),
    ),
)
