"""Crashes: calls with wrong arguments, states that do not fit, optimizers and schedulers used otherwise."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "loss_class_called_with_data",
        "the class of the loss gets the outputs and the targets",
        kind="calls",
        style="functional",
        source="Stack Overflow, Boolean value of Tensor with more than one value is ambiguous",
        program="""
import torch
from torch import nn


def build(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.ReLU(), nn.Linear(30, classes))


def compute_loss(outputs, targets):
    return nn.CrossEntropyLoss(outputs, targets)


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def fit(model, x, y, epochs=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for xb, yb in zip(x.split(25), y.split(25)):
            optimizer.zero_grad()
            outputs = model(xb)
            loss = compute_loss(outputs, yb)
            loss.backward()
            optimizer.step()
        print(epoch, accuracy(model(x), y))


torch.manual_seed(0)
fit(build(10), torch.randn(100, 1, 8, 8), torch.randint(0, 10, (100,)))
""",
        repair=(("nn.CrossEntropyLoss(outputs, targets)", "nn.CrossEntropyLoss()(outputs, targets)"),),
        says=("crossentropyloss", "()(|cross_entropy|instance|construct|create|made first"),
    ),
)
