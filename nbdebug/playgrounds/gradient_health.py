"""Gradient health: how activation, initialization, depth, normalization and width shape gradients by layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import ACTIVATIONS, NORMALIZATIONS, Samples, perceptron, spirals, train
from nbdebug.views.line_chart import LineChart

_INITIALIZATIONS: dict[str, Callable[[Tensor], object]] = {
    "PyTorch default": lambda weight: None,
    "Xavier": nn.init.xavier_normal_,
    "Kaiming": partial(nn.init.kaiming_normal_, nonlinearity="relu"),
    "orthogonal": nn.init.orthogonal_,
    "normal, 0.01": partial(nn.init.normal_, std=0.01),
    "normal, 1": nn.init.normal_,
}
_STEPS, _RATE = 100, 0.05
_WEAK, _STRONG, _INACTIVE = 1e-2, 1e2, 0.5  # ratio of first to last gradient; share of units that pass no gradient
_DEAD_GRADIENT = 1e-3  # a unit whose activation has a smaller derivative on all samples


def _compute(activation: str, initialization: str, normalization: str, depth: int, width: int) -> PlayPicture:
    """Return the gradients and the activations of a new network by layer, and the loss of a hundred steps."""
    data = spirals()
    model = _network(activation, initialization, normalization, depth, width)
    outputs = _layer_outputs(model, data)
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    gradients = [float(layer.weight.grad.square().mean().sqrt()) for layer in linear if layer.weight.grad is not None]
    spreads = [float(output.detach().std()) for output in outputs]
    inactive = _inactive_share(outputs)
    losses = train(model, data, torch.optim.SGD(model.parameters(), lr=_RATE), steps=_STEPS, batch=64)
    tone, headline, explanation = _judge(gradients, inactive)
    curves = {"training": losses.training, "validation": losses.validation}
    charts = (
        LineChart("Gradient by layer", "layer", series={"RMS": list(enumerate(gradients, 1))}, log=True),
        LineChart("Activation by layer", "layer", series={"standard deviation": list(enumerate(spreads, 1))}, log=True),
        LineChart(f"Loss with SGD, rate {_RATE}", series=curves),
    )
    return PlayPicture(charts, tone, headline, f"{explanation} After {_STEPS} steps the loss is {losses.last:.3g}.")


def _network(activation: str, initialization: str, normalization: str, depth: int, width: int) -> nn.Sequential:
    model = perceptron(2, width, depth, activation, normalization)
    for layer in model:
        if isinstance(layer, nn.Linear):
            _INITIALIZATIONS[initialization](layer.weight)
    return model


def _layer_outputs(model: nn.Sequential, data: Samples) -> list[Tensor]:
    """Run one forward and backward pass, and return the output of each activation with its gradient."""
    outputs, x = [], data.inputs
    activations = tuple(type(make()) for make in ACTIVATIONS.values())
    for layer in model:
        x = layer(x)
        if isinstance(layer, activations):
            x.retain_grad()
            outputs.append(x)
    torch.autograd.backward(F.cross_entropy(x, data.targets))
    return outputs


def _inactive_share(outputs: list[Tensor]) -> float:
    """Return the largest share, over the layers, of units whose output is the same for all samples."""
    return max(float((output.detach().std(0) < _DEAD_GRADIENT).float().mean()) for output in outputs)


def _judge(gradients: list[float], inactive: float) -> tuple[Tone, str, str]:
    first, last = gradients[0], gradients[-1]
    ratio = first / last if last else 0.0
    text = f"The first layer gets {ratio:.2g} times the gradient of the last"
    if ratio < _WEAK:
        reason = "Each layer multiplies the gradient by a factor below 1. Depth makes that a power."
        return "error", f"{text}: it vanishes.", f"{reason} Normalization, ReLU with Kaiming or less depth prevent it."
    if ratio > _STRONG:
        reason = "Each layer multiplies the gradient by a factor above 1. Depth makes that a power."
        return "error", f"{text}: it explodes.", f"{reason} A smaller initialization or normalization prevents it."
    if inactive > _INACTIVE:
        reason = "Units that are constant over all samples pass no information, and learn slowly or never."
        return "warning", f"{text}, but {inactive:.0%} of the units of a layer are constant.", reason
    return "good", f"{text}: it flows.", "Every layer learns at a similar speed."


PLAYGROUND = Playground(
    name="gradient-health",
    title="Gradient health",
    question="Which networks let the gradient reach their first layer?",
    controls=(
        Control("activation", "Activation", tuple(ACTIVATIONS), "sigmoid"),
        Control("initialization", "Initialization", tuple(_INITIALIZATIONS), "PyTorch default"),
        Control("normalization", "Normalization", tuple(NORMALIZATIONS), "none"),
        Control("depth", "Depth", (1, 2, 4, 8, 12, 16, 24, 32), 8),
        Control("width", "Width", (4, 8, 16, 32, 64, 128), 32),
    ),
    compute=_compute,
)
