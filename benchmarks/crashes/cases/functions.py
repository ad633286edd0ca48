"""Crashes: own autograd functions, checkpoints, torch.func and vmap, inference mode."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "bias_gradient_not_summed",
        "the gradient of a bias has the shape of the output",
        kind="functions",
        style="custom_parts",
        source="Stack Overflow, returned an invalid gradient at index 2 - got [8, 5] but expected [5]",
        program="""
import torch
from torch import nn


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_weight = grad.t() @ x
        return grad @ weight, grad_weight, grad.mean(dim=1)


class MyLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * 0.1)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return LinearFunction.apply(x, self.weight, self.bias)


torch.manual_seed(0)
model = nn.Sequential(MyLinear(3, 7), nn.ReLU(), MyLinear(7, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 3)), torch.randint(5, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("grad.mean(dim=1)", "grad.sum(dim=0)"),),
        says=("8", "5", "bias|third|sum(0)|sum(dim=0)|dim=0"),
    ),
)
