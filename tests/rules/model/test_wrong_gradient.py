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


class SquareProduct(Function):
    """A product with a square matrix, whose gradient is transposed unless ``is_right``."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, matrix: Tensor, is_right: bool) -> Tensor:
        ctx.save_for_backward(state, matrix)
        ctx.is_right = is_right
        return state @ matrix.t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        state, matrix = ctx.saved_tensors
        return gradient @ (matrix if ctx.is_right else matrix.t()), gradient.t() @ state, None


class RecurrentProduct(nn.Module):
    """A network whose state starts at a constant, so that only later calls give it a gradient."""

    def __init__(self, is_right: bool, first_state: float = 0.0) -> None:
        super().__init__()
        self.enter, self.head, self.is_right, self.first_state = nn.Linear(1, 8), nn.Linear(8, 3), is_right, first_state
        self.matrix = nn.Parameter(torch.randn(8, 8) / 3)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_full((len(x), 8), self.first_state)
        for step in range(x.shape[1]):
            state = torch.tanh(self.enter(x[:, step, None]) + SquareProduct.apply(state, self.matrix, self.is_right))
        return self.head(state)


class DataThenHidden(nn.Module):
    """A network that applies the same product to its inputs and to a hidden layer."""

    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.body, self.head, self.is_right = nn.Linear(4, 4), nn.Linear(4, 3), is_right
        self.matrices = nn.Parameter(torch.randn(2, 4, 4) / 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(SquareProduct.apply(x, self.matrices[0], self.is_right)).relu()
        return self.head(SquareProduct.apply(hidden, self.matrices[1], self.is_right))


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "transposed, recurrent": (lambda: minimal_setup(RecurrentProduct(is_right=False), X, Y, CE), "error"),
    "transposed, inputs first": (lambda: minimal_setup(DataThenHidden(is_right=False), X, Y, CE), "error"),
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
        "return gradient * x.sigmoid() * (1 - x.sigmoid())",
        "return gradient @ weight, gradient.t() @ x, gradient.mean(0)",
        "return gradient * 2",
        "return gradient @ (matrix",
    )
    assert (finding.where.source or "").strip().startswith(returned)


def test_wrong_gradient_states_the_derivative_of_forward_alone_beside_the_incoming_gradient() -> None:
    (finding,) = rule_findings(FAULTS["missing chain rule"][0](), "M316")
    evidence = finding.evidence
    assert evidence["backward"] == pytest.approx(evidence["finite difference of forward"], rel=1e-4)
    expected = evidence["incoming gradient"] * evidence["finite difference of forward"]
    assert evidence["finite difference"] == pytest.approx(expected, rel=1e-4)
    assert f"{evidence['finite difference of forward']:.4g}, so it should return" in finding.message


def test_wrong_gradient_of_a_product_compares_weighted_sums_of_outputs() -> None:
    (finding,) = rule_findings(FAULTS["transposed, inputs first"][0](), "M316")
    assert finding.evidence["incoming gradient"] is None
    assert finding.message.startswith("For a weighted sum of the outputs")


HEALTHY: dict[str, Callable[[], Setup]] = {
    "right product, recurrent": lambda: minimal_setup(RecurrentProduct(is_right=True), X, Y, CE),
    "right product, first state of one": lambda: minimal_setup(RecurrentProduct(True, first_state=1.0), X, Y, CE),
    "right product, inputs first": lambda: minimal_setup(DataThenHidden(is_right=True), X, Y, CE),
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


class ForgetfulSine(Function):
    """A sine whose backward is not multiplied by the gradient that it receives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        slope: Tensor = x.cos()
        return slope  # here


def test_wrong_gradient_of_backward_without_its_gradient_points_to_what_it_returns() -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(ForgetfulSine.apply(self.body(x)))

    (finding,) = rule_findings(minimal_setup(Network(), X, Y, CE), "M316")
    assert (finding.where.source or "").strip() == "return slope  # here"
    assert finding.cause.startswith("backward does not use the gradient that it receives")
