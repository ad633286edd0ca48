"""Activation flow: how far the activations spread from layer to layer, and which units pass no gradient any more."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import ACTIVATIONS, NORMALIZATIONS, perceptron, spirals, train
from nbdebug.views.line_chart import LineChart

_WIDTH, _STEPS, _EVERY = 64, 200, 10
_BLOCKED_SLOPE = 0.01  # a unit passes no gradient if its slope is smaller on every sample
_MANY, _NARROW = 0.2, 0.1  # share of blocked units of a layer; ratio of the last spread to the first
_ZERO_OUTSIDE = ("ReLU", "GELU")  # these are flat on one side only: their blocked units are dead


def _compute(activation: str, normalization: str, bias: float, rate: float, depth: int) -> PlayPicture:
    """Return the blocked units of each layer by step, and the spread of the activations before and after training."""
    data = spirals()
    model = perceptron(2, _WIDTH, depth, activation, normalization)
    for layer in list(model)[:-1]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, bias)
    names = [f"layer {number}" for number in range(1, depth + 1)]
    blocked: dict[str, list[tuple[float, float]]] = {name: [] for name in names}

    def measure(step: int) -> None:
        if step % _EVERY == 0:
            for name, share in zip(names, _flow(model, data.inputs)[0], strict=True):
                blocked[name].append((step, share))

    before = _flow(model, data.inputs)[1]
    losses = train(
        model, data, torch.optim.SGD(model.parameters(), lr=rate), steps=_STEPS, batch=64, before_step=measure
    )
    shares, after = _flow(model, data.inputs)
    spreads = {"before training": list(enumerate(before, 1)), "after training": list(enumerate(after, 1))}
    charts = (
        LineChart("Share of units that pass no gradient", series=blocked),
        LineChart("Spread of the activations by layer", "layer", series=spreads, log=True),
        LineChart("Loss", series={"training": losses.training, "validation": losses.validation}),
    )
    tone, headline, explanation = _judge(activation, shares, after)
    return PlayPicture(charts, tone, headline, f"{explanation} The loss ends at {losses.last:.3g}.")


def _flow(model: nn.Sequential, inputs: Tensor) -> tuple[list[float], list[float]]:
    """Return for each activation the share of units that pass no gradient, and the standard deviation of its output."""
    shares, spreads, x = [], [], inputs
    kinds = tuple(type(make()) for make in ACTIVATIONS.values())
    for layer in model:
        x = x.detach().requires_grad_()
        outputs = layer(x)
        if isinstance(layer, kinds):
            (slopes,) = torch.autograd.grad(outputs.sum(), x)
            shares.append(float((slopes.abs().amax(0) < _BLOCKED_SLOPE).float().mean()))
            spreads.append(float(outputs.detach().std()))
        x = outputs
    return shares, spreads


def _judge(activation: str, shares: list[float], spreads: list[float]) -> tuple[Tone, str, str]:
    worst = max(range(len(shares)), key=shares.__getitem__)
    text = f"{shares[worst]:.0%} of the {activation} units of layer {worst + 1} pass no gradient on any sample"
    if shares[worst] > _MANY:
        if activation in _ZERO_OUTSIDE:
            reason = "Their input is negative for every sample, so no step changes their weights: they stay dead."
            cure = "A lower rate, a bias of zero, normalization or a leaky ReLU keeps them alive."
        else:
            reason = "Their input is far from zero for every sample, where the curve is flat: they are saturated."
            cure = "A lower rate, a smaller bias or normalization brings them back to the slope."
        return "error", f"{text}.", f"{reason} {cure}"
    if spreads[-1] < _NARROW * spreads[0]:
        reason = "Samples become more and more alike from layer to layer, and the last layer has little to separate."
        cure = "Normalization, or an initialization that fits the activation, keeps the spread."
        return (
            "warning",
            f"The activations narrow to {spreads[-1] / spreads[0]:.2g} of their first spread.",
            f"{reason} {cure}",
        )
    return "good", f"{text}.", "Every layer passes on what it gets, and its units can still change."


PLAYGROUND = Playground(
    name="activation-flow",
    title="Activation flow and dying ReLU",
    question="Which units never switch on again?",
    controls=(
        Control("activation", "Activation", tuple(ACTIVATIONS)[:-1], "ReLU"),
        Control("normalization", "Normalization", tuple(NORMALIZATIONS), "none"),
        Control("bias", "Bias at the start", (-2.0, -1.0, -0.5, -0.2, 0.0, 0.5, 2.0), 0.0),
        Control("rate", "Learning rate", (0.01, 0.03, 0.1, 0.3, 1.0, 3.0), 1.0),
        Control("depth", "Depth", (1, 2, 3, 4, 5, 6), 4),
    ),
    compute=_compute,
)
