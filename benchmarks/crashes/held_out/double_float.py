"""Crashes: float64 from NumPy that meets float32."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "numpy_features_double",
        "features from NumPy are float64, the layer is float32",
        kind="double_float",
        style="script",
        source="Stack Overflow, expected Float but got Double",
        program="""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
features = rng.normal(size=(80, 5))
targets = features @ np.array([1.0, -2.0, 0.5, 0.0, 3.0])

X = torch.from_numpy(features)
y = torch.from_numpy(targets).float().unsqueeze(1)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(10):
    prediction = model(X)
    loss = ((prediction - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.from_numpy(features)", "torch.from_numpy(features).float()"),),
        line=("torch.from_numpy(features)", "prediction = model(X)"),
        says=("float64|double", "float32|float()"),
    ),
)
