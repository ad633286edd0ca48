"""Crashes: class labels that the output does not have."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "labels_from_one",
        "classes are numbered from 1",
        kind="label_range",
        style="script",
        source="Stack Overflow, Target 3 is out of bounds",
        program="""
import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(1)
X = rng.normal(size=(90, 4)).astype(np.float32)
y = rng.integers(1, 4, size=90)

X, y = torch.from_numpy(X), torch.from_numpy(y)
model = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(5):
    outputs = model(X)
    loss = criterion(outputs, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.from_numpy(y)", "torch.from_numpy(y) - 1"),),
        line=("torch.from_numpy(y)", "rng.integers(1, 4, size=90)", "loss = criterion(outputs, y)", "nn.Linear(10, 3)"),
        says=("3", "label|target|class", "0"),
    ),
)
