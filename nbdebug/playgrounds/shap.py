"""SHAP of a function that the user draws: exact values, of the function and of a network that learned it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import Samples, perceptron, train
from nbdebug.views.line_chart import LineChart

_HEIGHTS = tuple(height / 4 for height in range(-4, 5))
_DRAWN = (-0.5, -0.5, -0.25, 0.25, 1.0, 0.75, 0.0, -0.25, -0.25)
_SAMPLES, _BACKGROUND, _STEPS, _WIDTH = 512, 256, 400, 48
_LOW, _HIGH = -0.8, 0.8  # values of the other feature at which a feature is explained
_GRID = torch.linspace(-1, 1, 33)
_GOOD_FIT = 0.95  # explained variance of the network on unseen samples

_Function = Callable[[Tensor], Tensor]
"""Maps samples of shape (samples, 2) to one number each."""


def _compute(drawing: tuple[float, ...], slope: float, interaction: float, correlation: float) -> PlayPicture:
    """Return the drawn function and the network along the first feature, and the SHAP values of both features."""

    def function(x: Tensor) -> Tensor:
        return _interpolate(drawing, x[:, 0]) + slope * x[:, 1] + interaction * x[:, 0] * x[:, 1]

    data = _samples(function, correlation)
    model = perceptron(2, _WIDTH, 2, outputs=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, data, optimizer, steps=_STEPS, batch=64, every=_STEPS, loss_fn=_squared_error)

    def network(x: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.as_tensor(model(x)).squeeze(1)

    background = data.inputs[:_BACKGROUND]
    line = torch.stack([_GRID, torch.zeros_like(_GRID)], 1)
    charts = (
        LineChart(
            "Output, where x₂ is 0",
            "x₁",
            series={"drawn": _points(function(line)), "network": _points(network(line))},
        ),
        *(_values_chart(function, network, background, feature) for feature in (0, 1)),
    )
    unseen = data.val_inputs
    fit = 1 - float((network(unseen) - data.val_targets).square().mean() / data.val_targets.var().clamp_min(1e-9))
    sizes = [_shap_values(network, data.val_inputs, background)[:, feature].abs().mean() for feature in (0, 1)]
    tone, headline, explanation = _judge(fit, float(sizes[0]), float(sizes[1]), interaction, correlation)
    return PlayPicture(charts, tone, headline, explanation)


def _interpolate(heights: tuple[float, ...], x: Tensor) -> Tensor:
    places = np.linspace(-1, 1, len(heights))
    return torch.from_numpy(np.interp(x.numpy(), places, heights)).float()


def _samples(function: _Function, correlation: float) -> Samples:
    """Return samples of the function; the features are uniform from -1 to 1, and correlated."""

    def draw(count: int) -> Tensor:
        normal = torch.randn(count, 2)
        normal[:, 1] = correlation * normal[:, 0] + math.sqrt(1 - correlation**2) * normal[:, 1]
        return torch.erf(normal / math.sqrt(2))

    inputs, unseen = draw(_SAMPLES), draw(_SAMPLES)
    return Samples(inputs, function(inputs), unseen, function(unseen))


def _squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.mse_loss(outputs.squeeze(1), targets)


def _shap_values(function: _Function, inputs: Tensor, background: Tensor) -> Tensor:
    """Return the exact SHAP values of two features, shape (samples, 2).

    Shapley's formula with all four sets of features; those outside the set have the values of each background sample
    in turn (Lundberg and Lee 2017, arXiv:1705.07874).
    """

    def mean_output(first: Tensor, second: Tensor) -> Tensor:
        shape = len(inputs), len(background)
        pairs = torch.stack([first.expand(shape), second.expand(shape)], -1)
        return function(pairs.reshape(-1, 2)).reshape(shape).mean(1)

    (x1, x2), (b1, b2) = inputs.T.unsqueeze(2), background.T.unsqueeze(1)
    nothing, both = function(background).mean(), function(inputs)
    only_first, only_second = mean_output(x1, b2), mean_output(b1, x2)
    first = (only_first - nothing + both - only_second) / 2
    return torch.stack([first, both - nothing - first], 1)


def _values_chart(function: _Function, network: _Function, background: Tensor, feature: int) -> LineChart:
    """Return the SHAP values of a feature along it, at a low and a high value of the other feature."""
    series = {}
    for other in (_LOW, _HIGH):
        line = torch.full((len(_GRID), 2), other)
        line[:, feature] = _GRID
        for name, explained in {"drawn": function, "network": network}.items():
            values = _shap_values(explained, line, background)[:, feature]
            series[f"{name}, x{'₂₁'[feature]} = {other:g}"] = _points(values)
    return LineChart(f"SHAP value of x{'₁₂'[feature]}", f"x{'₁₂'[feature]}", series=series)


def _points(values: Tensor) -> list[tuple[float, float]]:
    return list(zip(_GRID.tolist(), values.tolist(), strict=True))


def _judge(fit: float, first: float, second: float, interaction: float, correlation: float) -> tuple[Tone, str, str]:
    text = f"The mean absolute SHAP value of the network is {first:.2g} for x₁ and {second:.2g} for x₂"
    if fit < _GOOD_FIT:
        reason = "SHAP explains the network, and not the world: where the network is wrong, so are its reasons."
        return "warning", f"The network explains {fit:.0%} of the variance. {text}.", reason
    if abs(correlation) > 0.5:
        reason = (
            "The features go together, but SHAP also asks about pairs of values that never occur together. The network "
            "never saw those, and its values there differ from those of your function."
        )
        return "warning", f"{text}; the features correlate by {correlation:g}.", reason
    if interaction:
        reason = (
            "The features interact: the value of x₁ depends on x₂, and each of them gets half of what they do together."
        )
        return "note", f"{text}.", f"{reason} That is the distance between the lines of one chart."
    reason = "Without interaction, the SHAP value of a feature is its own curve minus the mean of that curve."
    return "good", f"{text}.", f"{reason} It is the same whatever the other feature is."


PLAYGROUND = Playground(
    name="shap",
    title="SHAP of a function that you draw",
    question="What do SHAP values show of a function that you know?",
    controls=(
        Control("drawing", "Draw the effect of x₁", _HEIGHTS, _DRAWN),
        Control("slope", "Slope of x₂", (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0), 0.5),
        Control("interaction", "Interaction x₁ · x₂", (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0), 0.0),
        Control("correlation", "Correlation of x₁ and x₂", (-0.98, -0.8, -0.5, 0.0, 0.5, 0.8, 0.98), 0.0),
    ),
    compute=_compute,
)
