"""Crashes: conversion to NumPy of tensors that need gradients."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "loss_curve_to_numpy",
        "the predictions are plotted with their graph",
        kind="numpy_grad",
        style="script",
        source="Stack Overflow, Can't call numpy() on Tensor that requires grad",
        program="""
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-3, 3, 60).unsqueeze(1)
y = torch.sin(x)
model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(5):
    prediction = model(x)
    loss = nn.functional.mse_loss(prediction, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    curve = prediction.numpy()
    print(epoch, np.abs(curve - y.numpy()).max())
""",
        repair=(("prediction.numpy()", "prediction.detach().numpy()"),),
        says=("detach",),
    ),
)
