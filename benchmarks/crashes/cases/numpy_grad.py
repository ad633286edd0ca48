"""Crashes: conversion to NumPy of tensors that need gradients."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "accuracy_with_sklearn",
        "scikit-learn gets a tensor that needs gradients",
        kind="numpy_grad",
        style="trainer",
        source="Stack Overflow, sklearn metric of model output",
        program="""
import torch
from sklearn.metrics import roc_auc_score
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(5, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def epoch(self, x, y):
        scores = self.model(x).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return roc_auc_score(y, scores)


torch.manual_seed(0)
x = torch.randn(50, 5)
y = (x[:, 0] > 0).float()
trainer = Trainer()
print([trainer.epoch(x, y) for _ in range(3)])
""",
        repair=(("roc_auc_score(y, scores)", "roc_auc_score(y, scores.detach())"),),
        says=("detach", "scores"),
    ),
    crash(
        "weights_to_numpy",
        "the weights are copied to NumPy in every epoch",
        kind="numpy_grad",
        style="notebook_cells",
        source="discuss.pytorch.org, plot the filters of a layer",
        program="""
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
images, labels = torch.rand(30, 1, 9, 9), torch.randint(2, (30,))
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(196, 2))
history = []
# %%
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(3):
    loss = nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(np.array(net[0].weight))
# %%
print(np.stack(history).std(axis=0).mean())
""",
        repair=(("np.array(net[0].weight)", "np.array(net[0].weight.detach())"),),
        says=(
            "detach",
            "weight",
        ),
    ),
    crash(
        "metric_module_numpy",
        "an own metric converts what it is given to NumPy",
        kind="numpy_grad",
        style="custom_parts",
        source="GitHub issue, custom metric and numpy()",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ErrorHistogram:
    def __init__(self):
        self.counts = np.zeros(10)

    def update(self, prediction, target):
        errors = prediction.numpy() - target.numpy()
        self.counts += np.histogram(errors, bins=10, range=(-3, 3))[0]


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 1)), batch_size=10)
model, metric = nn.Linear(3, 1), ErrorHistogram()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    prediction = model(x)
    loss = nn.functional.mse_loss(prediction, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    metric.update(prediction, y)
""",
        repair=(("metric.update(prediction, y)", "metric.update(prediction.detach(), y)"),),
        line=("metric.update(prediction, y)", "errors = prediction.numpy()"),
        says=("detach", "prediction"),
    ),
)
