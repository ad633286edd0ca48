"""Tests of M316: wrong backward passes, and surrogate gradients by design."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings
from tests.rules.signal.networks import HiddenFunction

X, Y = points()
CE = nn.CrossEntropyLoss()


def make_function(forward: Callable[..., Any], backward: Callable[..., Any]) -> type[Function]:
    """Return a function of one input with ``forward(x)`` and ``backward(x, gradient)``."""

    class CustomFunction(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return backward(*ctx.saved_tensors, gradient)

    return CustomFunction


class LinearFunction(Function):
    """A linear layer that averages the gradient of its bias, with ``setup_context``."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return x @ weight.t() + bias

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x, gradient.mean(0)


class SquaredErrorFunction(Function):
    """Squared error with the wrong sign of its gradient."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(output, target)
        return (output - target).square().mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        output, target = ctx.saved_tensors
        return gradient * 2 * (target - output) / output.numel(), None


class CustomLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(LinearFunction.apply(x, self.layer.weight, self.layer.bias).relu())


def setup_of(forward: Callable[..., Any], backward: Callable[..., Any]) -> Setup:
    return minimal_setup(HiddenFunction(make_function(forward, backward).apply), X, Y, CE)


def sigmoid_backward(x: Tensor, gradient: Tensor) -> Tensor:
    return gradient * x.sigmoid() * (1 - x.sigmoid())


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "missing factor": (lambda: setup_of(lambda x: x**3, lambda x, g: g * x**2), "error"),
    "missing chain rule": (lambda: setup_of(torch.tanh, lambda x, g: 1 - x.tanh() ** 2), "error"),
    "derivative of another function": (lambda: setup_of(torch.tanh, sigmoid_backward), "error"),
    "no mask": (lambda: setup_of(torch.relu, lambda x, g: g), "warning"),
    "mean for the bias": (lambda: minimal_setup(CustomLinear(), X, Y, CE), "error"),
    "loss with the wrong sign": (
        lambda: minimal_setup(network(1), X, X.sum(1, keepdim=True), lambda o, t: SquaredErrorFunction.apply(o, t)),
        "error",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_wrong_gradient_of_wrong_backward_points_to_it(name: str) -> None:
    build, severity = FAULTS[name]
    (finding,) = rule_findings(build(), "M316")
    assert finding.severity == severity
    returned = (
        "return backward(",
        "return gradient @ weight, gradient.t() @ x, gradient.mean(0)",
        "return gradient * 2",
    )
    assert (finding.where.source or "").strip().startswith(returned)


HEALTHY: dict[str, Callable[[], Setup]] = {
    "right sigmoid": lambda: setup_of(torch.sigmoid, sigmoid_backward),
    "right relu": lambda: setup_of(torch.relu, lambda x, g: g * (x > 0)),
    "absolute value": lambda: setup_of(torch.abs, lambda x, g: g * x.sign()),
    "gradient reversal": lambda: setup_of(lambda x: x.view_as(x), lambda x, g: -0.5 * g),
    "straight through rounding": lambda: setup_of(torch.round, lambda x, g: g),
    "spike surrogate": lambda: setup_of(lambda x: (x > 0).to(x), lambda x, g: g / (1 + x.abs()) ** 2),
    "no function": classifier,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_wrong_gradient_ignores_correct_and_surrogate_gradients(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "M316") == []


def test_wrong_gradient_leaves_function_class_unchanged() -> None:
    function_class = make_function(torch.sigmoid, sigmoid_backward)
    before = dict(vars(function_class))
    rule_findings(minimal_setup(HiddenFunction(function_class.apply), X, Y, CE), "M316")
    assert dict(vars(function_class)) == before


class ScaleFunction(Function):
    """A product whose second factor gets no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.saved_tensors[0], None


class ScaledNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.scale = nn.Linear(4, 8), nn.Linear(8, 3), nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(ScaleFunction.apply(self.body(x), self.scale))


def test_wrong_gradient_of_missing_gradient_for_factor_of_one_is_error() -> None:
    report = Debugger.of(minimal_setup(ScaledNetwork(), X, Y, CE)).checkup()
    assert (report[0].code, report[0].severity) == ("M316", "error")
