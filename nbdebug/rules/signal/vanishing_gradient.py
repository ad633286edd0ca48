"""G403: gradients shrink from layer to layer towards the input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location, format_module
from nbdebug.measurements.hidden_sigmoids import HiddenSigmoids
from nbdebug.records import Record
from nbdebug.records.layer_signals import (
    MIN_DEPTH_CORRELATION,
    MIN_SNAPSHOTS,
    DepthProfile,
    depth_profile,
    describe_values,
    is_settled,
)
from nbdebug.records.shrunk_weights import find_shrunk_weights, lost_gradient_first
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points, train
from nbdebug.setup import Setup
from nbdebug.setup.module_lines import part_line
from nbdebug.setup.optimizer_code import largest_weight_decay
from nbdebug.source.location import add_line

_CAUSE_OF_ACTIVATION = (
    "In the backward pass, each {kind} multiplies the gradient by its derivative, which is below 1, and near 0 where "
    "it is saturated."
)
_FIX_OF_ACTIVATION = (
    "Use ReLU in place of {kind}, with torch.nn.init.kaiming_normal_ for the weights, or add residual connections: "
    "x = x + layer(norm(x))."
)
_CAUSE_OF_SHRINKING = (
    "Weight decay outweighs the small gradients of these layers and shrinks their weights. Smaller weights shrink the "
    "gradient further."
)
_CONSEQUENCES = ("G409", "O502", "T601", "T606", "T607", "T608", "T610", "T614", "G415")
_SATURATING = (nn.Sigmoid, nn.Tanh, nn.Softsign, nn.Softmax)


@rule("G403", "warning")
def vanishing_gradient(
    setup: Setup,
    record: Record | NotChecked,
    hidden_sigmoids: HiddenSigmoids | NotChecked | None,
    *,
    decades: float = 4.0,
    least: int = MIN_SNAPSHOTS,
    progress: float = 0.25,
) -> Iterator[Finding]:
    """Gradients shrink from layer to layer towards the input.

    ## What it does
    Compares the gradients of the layers of your run with each other, both absolute and relative to the weights. Before
    training, it compares trials with and without centered sigmoids.

    ## Why it matters
    With plain SGD the first layers do not change; with Adam they follow rounding errors of the gradient. The loss stays
    near that of a constant prediction, or only the last layers learn.

    ## How it is measured
    By the median norm over all snapshots except the first ones, weights and biases of a layer together. Reported if the
    gradient of a layer, relative to its weights, is ``decades`` = 4 powers of ten smaller than that of a later one, at
    least three powers smaller in absolute terms, and it shrinks with depth. Layers without any gradient (frozen, or
    after a branch that starts at zero) are excluded, as are normalization layers and embeddings; at least four layers
    are needed, and a hundred steps while the run continues.

    If two or more sigmoids are used only as inputs of layers, two copies of the model are trained for 100 steps on the
    first batches with your optimizer: one as it is, and one with 4 · (sigmoid - 1/2), which can learn the same
    functions. Reported if the model gains less than ``progress`` = a quarter of what the other trial gains, over the
    loss of a constant prediction where it is known. It is withdrawn if the watched run converges. Gates are not tried.

    ## How to fix
    Use ReLU or GELU instead of sigmoids, an initialization that fits the activation, normalization or residual
    connections.

    ## When to ignore
    When the first layers are meant to stay fixed.

    ## References
    Hochreiter 1991; Glorot and Bengio 2010. Rules with a fixed bound (a mean of 1e-7) give false alarms under low
    precision and small losses; the comparison with the other layers of the same run does not.
    """
    if isinstance(record, NotChecked):
        if isinstance(hidden_sigmoids, NotChecked):
            raise hidden_sigmoids
        if hidden_sigmoids is not None and hidden_sigmoids.is_hindered(progress):
            yield _sigmoid_finding(hidden_sigmoids)
        return
    if not is_settled(record):
        raise NotChecked("the run is too short; gradients of its first steps may still grow")
    by_layer = depth_profile(record, least)
    smallest = int(np.argmin(by_layer.relative))
    largest = smallest + int(np.argmax(by_layer.relative[smallest:]))
    gap, absolute_gap = (float(values[largest] - values[smallest]) for values in (by_layer.relative, by_layer.gradient))
    if gap >= decades and absolute_gap >= decades - 1 and by_layer.trend >= MIN_DEPTH_CORRELATION:
        activation = _saturating_module(setup, by_layer.layers[smallest])
        finding = _finding(by_layer, smallest, largest)
        if activation:
            kind = type(setup.eager_model.get_submodule(activation)).__name__
            finding = replace(
                finding, cause=_CAUSE_OF_ACTIVATION.format(kind=kind), fix=_FIX_OF_ACTIVATION.format(kind=kind)
            )
        finding = _with_shrunk_weights(finding, setup, record)
        line = part_line(setup, activation) if activation else None
        yield replace(finding, where=add_line(finding.where, line)) if line else finding


def _with_shrunk_weights(finding: Finding, setup: Setup, record: Record) -> Finding:
    """Return the finding as the cause of weights that shrank after their gradient had vanished, by weight decay."""
    try:
        names = find_shrunk_weights(record).names
    except NotChecked:  # too few snapshots to see weights shrink
        return finding
    if not lost_gradient_first(record, names, largest_weight_decay(setup, names)):
        return finding
    return replace(
        finding, cause=f"{finding.cause} {_CAUSE_OF_SHRINKING}", explains=(*finding.explains, "G411", "G410")
    )


def _saturating_module(setup: Setup, layer: str) -> str | None:
    """Return the first activation with a bounded range that the model holds after a layer; None without one."""
    modules = list(setup.eager_model.named_modules())
    names = [name for name, _ in modules]
    later = modules[names.index(layer) :] if layer in names else modules
    return next((name for name, module in later if isinstance(module, _SATURATING)), None)


def _finding(by_layer: DepthProfile, smallest: int, largest: int) -> Finding:
    sizes, shares = 10.0**by_layer.gradient, 10.0**by_layer.relative
    much_smaller = [i for i in range(largest) if by_layer.relative[i] < by_layer.relative[largest] - 3]
    factor_per_layer = 10 ** ((by_layer.relative[largest] - by_layer.relative[smallest]) / max(largest - smallest, 1))
    return Finding(
        message=f"The gradient shrinks by a factor of {factor_per_layer:.2g} per layer towards the input. The median "
        f"over the run of the ratio of gradient norm to weight norm is {shares[largest]:.2g} in "
        f"{format_module(by_layer.layers[largest])} and {shares[smallest]:.2g} in "
        f"{format_module(by_layer.layers[smallest])}, whose gradient norms are {sizes[largest]:.2g} and "
        f"{sizes[smallest]:.2g}. The median over all layers is {np.median(shares):.2g}. These layers have a ratio "
        "that is more than 1000 times smaller than the largest: "
        f"{describe_values([by_layer.layers[i] for i in much_smaller], shares[much_smaller])}.",
        where=Location(by_layer.layers[smallest]),
        cause="In the backward pass, each layer multiplies the gradient by its weights and by the derivative of its "
        "activation, and that product is far below 1: the weights are too small, or too many units are inactive.",
        fix="Draw the weights by torch.nn.init.kaiming_normal_, add residual connections: x = x + layer(norm(x)), or "
        "use fewer layers.",
        setup_fix="normalization",
        evidence={
            "layers": list(by_layer.layers),
            "gradient": sizes.tolist(),
            "gradient / weight": shares.tolist(),
            "median": float(np.median(shares)),
            "factor per layer": factor_per_layer,
            "much smaller": {"than": 1000, "layers": [by_layer.layers[i] for i in much_smaller]},
        },
        explains=_CONSEQUENCES,
    )


def _sigmoid_finding(sigmoids: HiddenSigmoids) -> Finding:
    """Report sigmoids between layers that hinder learning."""
    trials, constant_loss = sigmoids.trials, sigmoids.constant_loss
    known = f" The loss of a constant prediction is {constant_loss:.3g}." if math.isfinite(constant_loss) else ""
    return Finding(
        message=f"{sigmoids.count} sigmoids between layers hinder training. In a trial of {trials.steps} steps, the "
        f"loss went from {trials.initial_loss:.3g} to {trials.loss:.3g}. With 4 · (sigmoid - 1/2) in their place, it "
        f"went from {trials.changed_initial_loss:.3g} to {trials.changed_loss:.3g}.{known}",
        where=sigmoids.where,
        cause="The slope of a sigmoid is at most 1/4, and its outputs are around 1/2, not around 0. Each sigmoid "
        "shrinks the differences between samples, and in the backward pass the gradient, to a quarter or less.",
        fix=_FIX_OF_ACTIVATION.format(kind="a sigmoid"),
        evidence={
            "sigmoids": sigmoids.count,
            "loss": [trials.initial_loss, trials.loss],
            "loss with centered sigmoids": [trials.changed_initial_loss, trials.changed_loss],
            "loss of a constant prediction": constant_loss,
        },
        explains=_CONSEQUENCES,
        predicts=POOR_TRAINING.claim,
    )


def _deep_setup(activation: type[nn.Module]) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [module for i in range(8) for module in (nn.Linear(16 if i else 4, 16), activation())]
        model = nn.Sequential(*layers, nn.Linear(16, 3))
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def _train_loop(setup: Setup) -> None:
    train(setup, 20)


def bad() -> Setup:
    """Sigmoids, whose derivative is at most a quarter."""
    return _deep_setup(nn.Sigmoid)


def good() -> Setup:
    """GELU activations."""
    return _deep_setup(nn.GELU)


bad_loop = good_loop = _train_loop
