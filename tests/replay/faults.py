"""Setups whose training becomes NaN or Inf at a known step, line and sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup

BATCH_SIZE = 16
ODD_BATCH, ODD_ROW = 6, 5  # position of the odd sample: batch, and row in it
ODD_SAMPLE = ODD_BATCH * BATCH_SIZE + ODD_ROW

Operation = Callable[[Tensor], Tensor]


class Fault(NamedTuple):
    """A setup, part of the source line at fault, and the expected result of the replay."""

    build: Callable[[], Setup]
    source: str
    phase: str = "loss"
    operation: str = ""
    sample: int | None = ODD_ROW


class ComposedNetwork(nn.Module):
    """Two linear layers, with any operation on the input and any activation."""

    def __init__(self, input_operation: Operation, activation: Operation) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.input_operation, self.activation = input_operation, activation

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.activation(self.body(self.input_operation(x))))


def identity(x: Tensor) -> Tensor:
    return x


def points(odd: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
    """Return 160 points of three classes; ``odd`` replaces the values of one of them."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(160, 4, generator=generator)
    y = (x @ torch.randn(4, 3, generator=generator)).argmax(1)
    if odd is not None:
        x[ODD_SAMPLE] = odd
    return x, y


def make_setup(model: nn.Module, data: Any, loss_fn: Any = None, **options: Any) -> Setup:
    """Return a setup with ordered batches and, unless ``optimizers`` is passed, Adam."""
    options.setdefault("optimizers", (torch.optim.Adam(model.parameters(), lr=1e-2),))
    loader = DataLoader(data if isinstance(data, list) else TensorDataset(*data), batch_size=BATCH_SIZE)
    return Setup(model, loader, loss_fn=loss_fn or nn.CrossEntropyLoss(), **options)


def make_points_setup(model: nn.Module, odd: Tensor | float | None = 0.0, **options: Any) -> Setup:
    return make_setup(model, points(odd), **options)


def make_network(input_operation: Operation | None = None, activation: Operation = torch.relu) -> ComposedNetwork:
    """Return a network with fixed weights, on inputs of unit length unless ``input_operation`` is passed."""
    torch.manual_seed(0)
    return ComposedNetwork(input_operation or unit_length, activation)


class NestedNetwork(nn.Module):
    """A model that calls another."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = make_network()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def program(
    input_operation: Operation = identity, activation: Operation = torch.relu, odd: Any = None, **options: Any
) -> Callable[[], Setup]:
    return lambda: make_points_setup(make_network(input_operation, activation), odd, **options)


def standardize(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def unit_length(x: Tensor) -> Tensor:
    return x / x.norm(dim=1, keepdim=True)


def naive_sigmoid(h: Tensor) -> Tensor:
    return torch.exp(h) / (1 + torch.exp(h))


def sqrt_behind_where(h: Tensor) -> Tensor:
    squares = (h - h[:, :1]).square()
    return torch.where(squares > 0, squares.sqrt(), torch.zeros_like(squares))


def acos_of_tanh(h: Tensor) -> Tensor:
    return torch.acos(torch.tanh(h))


def hypot_of_zeros(h: Tensor) -> Tensor:
    flat = torch.where(h.abs().amax(1, keepdim=True) > 1e3, h * 0, h)
    return torch.hypot(flat, flat)


def add_norm_by_power(h: Tensor) -> Tensor:
    flat = torch.where(h.abs().amax(1, keepdim=True) > 1e3, h * 0, h)
    return h + flat.square().sum(1, keepdim=True) ** 0.5


def through_half_precision(h: Tensor) -> Tensor:
    return h.half().float()


def masked_attention(x: Tensor) -> Tensor:
    scores = (x.unsqueeze(2) - x.unsqueeze(1)).masked_fill(x.lt(-9).unsqueeze(1), -torch.inf)
    return (scores.softmax(-1) @ x.unsqueeze(2)).squeeze(2)


def manual_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    probabilities = torch.softmax(output, dim=1)[torch.arange(len(target)), target]
    return -torch.log(probabilities).mean()


def manual_binary_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    p, y = torch.sigmoid(output), F.one_hot(target, 3)
    return -(y * torch.log(p) + (1 - y) * torch.log1p(-p)).mean()


class DropoutBatchNormNetwork(nn.Module):
    """Batch normalization and dropout before a norm that is zero for the odd sample."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(self.norm(self.body(x)))
        is_odd = x[:, :1].gt(50)
        squares = torch.where(is_odd, h - h, h).square().sum(1, keepdim=True)
        return self.head(h + squares.sqrt())


class TwoInputs(nn.Module):
    """A model of two inputs that divides by the second."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return self.body(x) / scale


class ModelWithLoss(nn.Module):
    """A model with named inputs that returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, values: Tensor, weights: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.body(values)
        losses = F.cross_entropy(logits, labels, reduction="none") / weights
        return {"loss": losses.mean(), "logits": logits}


def two_inputs_setup() -> Setup:
    torch.manual_seed(0)
    x, y = points()
    scale = torch.ones(160, 1)
    scale[ODD_SAMPLE] = 0
    return make_setup(TwoInputs(), (x, scale, y))


def dict_batches_setup() -> Setup:
    torch.manual_seed(0)
    x, y = points()
    rows = [
        {"values": a, "weights": torch.tensor(float(i != ODD_SAMPLE)), "labels": b}
        for i, (a, b) in enumerate(zip(x, y, strict=True))
    ]
    setup = make_setup(ModelWithLoss(), rows)
    setup.loss_fn = None
    return setup


def dropout_and_batch_norm_setup() -> Setup:
    torch.manual_seed(0)
    x, y = points()
    x[ODD_SAMPLE, 0] = 90
    return make_setup(DropoutBatchNormNetwork(), (x, y))


def diverging_setup() -> Setup:
    model = make_network(identity, identity)
    return make_points_setup(
        model, None, loss_fn=squared_error, optimizers=(torch.optim.SGD(model.parameters(), lr=30.0),)
    )


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    return (output - F.one_hot(target, 3)).square().mean()


def high_learning_rate_setup() -> Setup:
    model = make_network(identity)
    return make_points_setup(
        model, None, loss_fn=manual_cross_entropy, optimizers=(torch.optim.SGD(model.parameters(), lr=20.0),)
    )


FAULTS: dict[str, Fault] = {
    "logarithm of a probability that falls to zero": Fault(
        high_learning_rate_setup, "torch.log(", operation="log", sample=None
    ),
    "logarithm of 1 - p at p = 1": Fault(
        program(odd=3e3, loss_fn=manual_binary_cross_entropy), "torch.log", operation="log"
    ),
    "standardized sample with zero variance": Fault(program(standardize, odd=2.0), "/ x.std(1", operation="div"),
    "zero sample scaled to unit length": Fault(program(unit_length, odd=0.0), "/ x.norm(", operation="div"),
    "exp of a large value": Fault(program(activation=naive_sigmoid, odd=1e3), "torch.exp(h)", operation="exp"),
    "softmax over a fully masked row": Fault(program(masked_attention, odd=-10.0), "softmax(-1)", operation="softmax"),
    "half precision": Fault(program(activation=through_half_precision, odd=1e6), ".half()", operation="to_copy"),
    "zero weight in the loss of the model": Fault(dict_batches_setup, "/ weights", operation="div"),
    "ratio of two inputs": Fault(two_inputs_setup, "self.body(x) / scale", operation="div"),
    "acos of a saturated tanh": Fault(program(activation=acos_of_tanh, odd=1e4), "torch.acos(", "gradient", "Acos"),
    "hypot of zeros": Fault(program(activation=hypot_of_zeros, odd=1e4), "torch.hypot(", "gradient", "Hypot"),
    "power of zero": Fault(program(activation=add_norm_by_power, odd=1e4), "** 0.5", "gradient", "Pow"),
    "square root behind where": Fault(
        program(activation=sqrt_behind_where), "squares.sqrt()", "gradient", "Sqrt", None
    ),
    "zero distance behind dropout and batch norm": Fault(
        dropout_and_batch_norm_setup, "squares.sqrt()", "gradient", "Sqrt"
    ),
}
