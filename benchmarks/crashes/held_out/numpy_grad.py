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
        says=(
            "detach",
            "prediction|curve",
        ),
    ),
    crash(
        "embedding_plot_numpy",
        "the embeddings of a typed helper are converted with their graph",
        kind="numpy_grad",
        style="typed",
        source="Stack Overflow, t-SNE of learned embeddings",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Projection:
    axes: int = 2

    def project(self, embedding: nn.Embedding) -> np.ndarray:
        vectors = embedding.weight.cpu().numpy()
        vectors = vectors - vectors.mean(axis=0)
        return vectors @ np.linalg.svd(vectors, full_matrices=False)[2][: self.axes].T


torch.manual_seed(0)
embedding, head = nn.Embedding(12, 5), nn.Linear(5, 12)
optimizer = torch.optim.Adam([*embedding.parameters(), *head.parameters()], lr=0.05)
for _ in range(3):
    words = torch.randint(12, (30,))
    loss = nn.functional.cross_entropy(head(embedding(words)), (words + 1) % 12)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(Projection().project(embedding).shape)
""",
        repair=(("embedding.weight.cpu().numpy()", "embedding.weight.detach().cpu().numpy()"),),
        says=("detach", "weight"),
    ),
)
