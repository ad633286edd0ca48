"""Loss landscape: how sharp the valley is into which gradient descent runs, and which rate it bears."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import Samples, evaluate, perceptron, spirals, train
from nbdebug.views.line_chart import LineChart

_WIDTH, _STEPS, _MEASUREMENTS, _ITERATIONS = 24, 400, 16, 12
_POSITIONS = torch.linspace(-0.5, 0.5, 41).tolist()
_DIRECTIONS = 3
_EDGE = 0.75  # from this share of 2 / rate on, the run is at the edge of stability


class _Skip(nn.Module):
    """Add the input of a layer to its output."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + cast(Tensor, self.layers(x))


def _compute(rate: float, activation: str, connections: str, depth: int) -> PlayPicture:
    """Return the sharpness by step of gradient descent on all samples, and the loss around its end."""
    data, model = spirals(noise=0.3), _network(activation, connections, depth)
    sharpness: list[tuple[float, float]] = []

    def measure(step: int) -> None:
        if step % (_STEPS // _MEASUREMENTS) == 0:
            sharpness.append((step, _sharpness(model, data)[0]))

    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = train(model, data, optimizer, steps=_STEPS, batch=len(data.targets), before_step=measure)
    last, sharpest = _sharpness(model, data)
    charts = (
        LineChart("Sharpness: the largest curvature", series={"sharpness": sharpness}, limits=[(2 / rate, "2 / rate")]),
        LineChart("Loss around the end of training", "distance", series=_slices(model, data, sharpest)),
        LineChart("Loss", series={"training": losses.training, "validation": losses.validation}),
    )
    tone, headline, explanation = _judge(rate, last, losses.last)
    return PlayPicture(charts, tone, headline, explanation)


def _network(activation: str, connections: str, depth: int) -> nn.Sequential:
    """Return a network in which each hidden layer after the first one may have a skip connection."""
    layers = list(perceptron(2, _WIDTH, depth, activation))
    if connections == "skip":
        layers[2:-1] = [_Skip(*layers[at : at + 2]) for at in range(2, len(layers) - 1, 2)]
    return nn.Sequential(*layers)


def _sharpness(model: nn.Module, data: Samples) -> tuple[float, list[Tensor]]:
    """Return the largest eigenvalue of the Hessian on all samples, and its eigenvector, by power iteration."""
    parameters = list(model.parameters())
    loss = F.cross_entropy(model(data.inputs), data.targets)
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    vector, value = [torch.randn_like(parameter) for parameter in parameters], 0.0
    for _ in range(_ITERATIONS):
        norm = torch.sqrt(_dot(vector, vector)).clamp_min(1e-30)
        vector = [part / norm for part in vector]
        product = torch.autograd.grad(gradients, parameters, grad_outputs=vector, retain_graph=True)
        value, direction = float(_dot(vector, product)), vector
        vector = list(product)
    return value, direction


def _dot(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    return torch.stack([(a * b).sum() for a, b in zip(left, right, strict=True)]).sum()


def _slices(model: nn.Module, data: Samples, sharpest: list[Tensor]) -> dict[str, list[tuple[float, float]]]:
    """Return the loss on lines through the end of training; a distance of 1 is the length of all weights together.

    Goodfellow et al. 2015, arXiv:1412.6544, draw such lines from the start to the end of training.
    """
    end = parameters_to_vector(model.parameters()).detach().clone()
    directions = {"sharpest direction": torch.cat([part.flatten() for part in sharpest])}
    directions |= {f"random direction {number}": torch.randn_like(end) for number in range(1, _DIRECTIONS + 1)}
    slices = {}
    for name, direction in directions.items():
        ray = direction * (end.norm() / direction.norm())
        slices[name] = [(position, _loss_at(model, data, end + position * ray)) for position in _POSITIONS]
    vector_to_parameters(end, model.parameters())
    return slices


def _loss_at(model: nn.Module, data: Samples, weights: Tensor) -> float:
    vector_to_parameters(weights, model.parameters())
    return evaluate(model, data.inputs, data.targets)


def _judge(rate: float, sharpness: float, loss: float) -> tuple[Tone, str, str]:
    if not math.isfinite(loss) or not math.isfinite(sharpness):
        reason = (
            "A step along a direction with a curvature above 2 / rate lands higher on the other side than it began."
        )
        return "error", "The run diverged.", f"{reason} Repeated, it leaves the valley for good. Lower the rate."
    text = f"The sharpness at the end is {sharpness:.3g}, and 2 / rate is {2 / rate:.3g}; the loss is {loss:.3g}"
    if sharpness > _EDGE * 2 / rate:
        reason = (
            "Training finds sharper and sharper places until the rate bears no more; there it stays, with a loss that "
            "falls unevenly (Cohen et al. 2021, arXiv:2103.00065)."
        )
        return "warning", f"{text}: the edge of stability.", f"{reason} A lower rate ends in a sharper valley."
    reason = "No direction is curved enough for a step to overshoot, so the loss falls at every step."
    return "good", f"{text}: stable.", f"{reason} A higher rate would go faster, and end in a flatter place."


PLAYGROUND = Playground(
    name="loss-landscape",
    title="Learning rate and loss landscape",
    question="How sharp is the valley that training finds, and which rate does it bear?",
    controls=(
        Control("rate", "Learning rate", (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0), 0.3),
        Control("activation", "Activation", ("tanh", "ReLU", "GELU"), "tanh"),
        Control("connections", "Connections", ("plain", "skip"), "plain"),
        Control("depth", "Depth", (1, 2, 3, 4, 6), 2),
    ),
    compute=_compute,
)
