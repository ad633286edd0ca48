"""Crashes: leaves changed in place."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "update_without_no_grad",
        "the weights are updated by hand outside no_grad",
        kind="leaf_inplace",
        style="script",
        source="Stack Overflow, a leaf Variable that requires grad is being used in an in-place operation",
        program="""
import torch

torch.manual_seed(0)
X = torch.randn(100, 3)
y = X @ torch.tensor([2.0, -1.0, 0.5]) + 0.3
w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.1
for epoch in range(10):
    loss = ((X @ w + b - y) ** 2).mean()
    loss.backward()
    w -= lr * w.grad
    b.data -= lr * b.grad
    w.grad.zero_()
    b.grad.zero_()
""",
        repair=(("    w -= lr * w.grad\n", "    with torch.no_grad():\n        w -= lr * w.grad\n"),),
        says=("no_grad", "w"),
    ),
    crash(
        "weights_filled_by_hand",
        "an initialization by hand outside no_grad",
        kind="leaf_inplace",
        style="functional",
        source="Stack Overflow, initialize weights of a linear layer",
        program="""
import torch
from torch import nn


def initialize(layer):
    if isinstance(layer, nn.Linear):
        layer.weight.normal_(0.0, 0.02)
        nn.init.zeros_(layer.bias)


def make_model():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2))
    model.apply(initialize)
    return model


torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(9, 8)), torch.randint(2, (9,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("layer.weight.normal_(0.0, 0.02)", "nn.init.normal_(layer.weight, 0.0, 0.02)"),),
        says=("no_grad|init", "weight"),
    ),
    crash(
        "adversarial_input_in_place",
        "the input of an attack is changed in place although it needs a gradient",
        kind="leaf_inplace",
        style="trainer",
        source="discuss.pytorch.org, fast gradient sign method",
        program="""
import torch
from torch import nn


class RobustTrainer:
    def __init__(self, model, epsilon=0.1):
        self.model = model
        self.epsilon = epsilon
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def attack(self, x, y):
        x = x.clone().requires_grad_()
        nn.functional.cross_entropy(self.model(x), y).backward()
        x += self.epsilon * x.grad.sign()
        return x.detach()

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(self.attack(x, y)), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = RobustTrainer(nn.Linear(5, 3))
for _ in range(3):
    trainer.step(torch.randn(12, 5), torch.randint(3, (12,)))
""",
        repair=(("x += self.epsilon * x.grad.sign()", "x = x + self.epsilon * x.grad.sign()"),),
        says=("in place|in-place|inplace|no_grad", "x"),
    ),
)
