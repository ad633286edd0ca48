"""Crashes: changes in place of what the backward pass needs, and of leaves."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "weights_decayed_by_hand",
        "a hand-written update changes the weights in place while gradients are recorded",
        kind="in_place",
        style="functional",
        source="Stack Overflow, a leaf Variable that requires grad is being used in an in-place operation",
        program="""
import torch


def forward(params, x):
    return torch.tanh(x @ params["w1"] + params["b1"]) @ params["w2"]


def update(params, lr=0.1):
    for value in params.values():
        value -= lr * value.grad
        value.grad = None


torch.manual_seed(0)
params = {"w1": torch.randn(2, 8), "b1": torch.zeros(8), "w2": torch.randn(8, 1)}
for value in params.values():
    value.requires_grad_()
x = torch.rand(30, 2)
y = x.prod(dim=1, keepdim=True)
for _ in range(4):
    loss = (forward(params, x) - y).pow(2).mean()
    loss.backward()
    update(params)
""",
        repair=(
            (
                "    for value in params.values():\n        value -= lr * value.grad\n        value.grad = None",
                "    with torch.no_grad():\n        for value in params.values():\n"
                "            value -= lr * value.grad\n            value.grad = None",
            ),
        ),
        line=("value -= lr * value.grad", "def update(params, lr=0.1):"),
        says=("no_grad|.data|.detach()", "value"),
    ),
)
