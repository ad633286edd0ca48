"""M316: a wrong derivative is found in whatever style; surrogates that are meant are not accused."""

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

X, Y = points()
CE = nn.CrossEntropyLoss()


def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> type[Function]:
    """A function of one input, from two lambdas: ``forward(x)`` and ``backward(x, gradient)``."""

    class Written(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return backward(*ctx.saved_tensors, gradient)

    return Written


class Weighted(Function):
    """A linear layer that sums the gradient of its bias over the wrong axis, in the newer style."""

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


class Loss(Function):
    """Squared error with the sign of its gradient turned."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(output, target)
        return (output - target).square().mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        output, target = ctx.saved_tensors
        return gradient * 2 * (target - output) / output.numel(), None


class Between(nn.Module):
    """A network with a call in its middle, kept under a name as many do."""

    def __init__(self, middle: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.middle = nn.Linear(4, 8), nn.Linear(8, 3), middle

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.middle(self.body(x)))


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(Weighted.apply(x, self.layer.weight, self.layer.bias).relu())


def between(forward: Callable[..., Any], backward: Callable[..., Any]) -> Setup:
    return minimal_setup(Between(function(forward, backward).apply), X, Y, CE)


def sigmoid(x: Tensor, gradient: Tensor) -> Tensor:
    return gradient * x.sigmoid() * (1 - x.sigmoid())


WRONG: dict[str, tuple[Callable[[], Setup], str]] = {
    "factor lost": (lambda: between(lambda x: x**3, lambda x, g: g * x**2), "error"),
    "chain rule lost": (lambda: between(torch.tanh, lambda x, g: 1 - x.tanh() ** 2), "error"),
    "derivative of another": (lambda: between(torch.tanh, sigmoid), "error"),
    "no mask": (lambda: between(torch.relu, lambda x, g: g), "warning"),
    "bias by the mean": (lambda: minimal_setup(ByHand(), X, Y, CE), "error"),
    "loss with the wrong sign": (
        lambda: minimal_setup(network(1), X, X.sum(1, keepdim=True), lambda o, t: Loss.apply(o, t)),
        "error",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_derivative_is_found(name: str) -> None:
    build, severity = WRONG[name]
    (found,) = rule_findings(build(), "M316")
    assert found.severity == severity
    assert "def backward" in (found.where.source or "")


MEANT: dict[str, Callable[[], Setup]] = {
    "right sigmoid": lambda: between(torch.sigmoid, sigmoid),
    "right relu": lambda: between(torch.relu, lambda x, g: g * (x > 0)),
    "kinked": lambda: between(torch.abs, lambda x, g: g * x.sign()),
    "gradient reversal": lambda: between(lambda x: x.view_as(x), lambda x, g: -0.5 * g),
    "straight through rounding": lambda: between(torch.round, lambda x, g: g),
    "spikes": lambda: between(lambda x: (x > 0).to(x), lambda x, g: g / (1 + x.abs()) ** 2),
    "no function": classifier,
}


@pytest.mark.parametrize("name", MEANT)
def test_a_gradient_that_is_right_or_meant_is_not_accused(name: str) -> None:
    assert fault_messages(MEANT[name](), "M316") == []


def test_the_functions_are_as_they_were() -> None:
    kind = function(torch.sigmoid, sigmoid)
    before = dict(vars(kind))
    rule_findings(minimal_setup(Between(kind.apply), X, Y, CE), "M316")
    assert dict(vars(kind)) == before


class Scaled(Function):
    """A product whose second factor gets no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.saved_tensors[0], None


class ScaledByOnes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.scale = nn.Linear(4, 8), nn.Linear(8, 3), nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(Scaled.apply(self.body(x), self.scale))


def test_a_factor_of_one_does_not_excuse_the_gradient_that_it_lacks() -> None:
    report = Debugger.of(minimal_setup(ScaledByOnes(), X, Y, CE)).checkup()
    assert (report[0].code, report[0].severity) == ("M316", "error")
