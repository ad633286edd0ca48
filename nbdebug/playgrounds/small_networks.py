"""Small data sets, networks and training runs of the playgrounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MAX_LOSS = 1e6  # a run that reaches it has diverged, and ends
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "leaky ReLU": nn.LeakyReLU,
    "GELU": nn.GELU,
    "none": nn.Identity,
}
NORMALIZATIONS: dict[str, Callable[[int], list[nn.Module]]] = {
    "none": lambda width: [],
    "batch": lambda width: [nn.BatchNorm1d(width)],
    "layer": lambda width: [nn.LayerNorm(width)],
}


@dataclass(frozen=True)
class Samples:
    """Inputs of shape (samples, features) with the number of their class, for training and for validation."""

    inputs: Tensor
    targets: Tensor
    val_inputs: Tensor
    val_targets: Tensor


@dataclass(frozen=True)
class Losses:
    """The training loss at each step, and the validation loss at every so many of them, as pairs with the step."""

    training: tuple[tuple[float, float], ...]
    validation: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The mean of the last tenth of the training losses; infinite for a run that diverged."""
        values = [loss for _, loss in self.training]
        if not math.isfinite(values[-1]) or values[-1] >= MAX_LOSS:
            return math.inf
        tail = values[-max(1, len(values) // 10) :]
        return sum(tail) / len(tail)


def spirals(samples: int = 256, noise: float = 0.15, val_samples: int = 256) -> Samples:
    """Return two interleaved spirals in the plane, which no straight line separates, and which overlap a little."""

    def draw(count: int) -> tuple[Tensor, Tensor]:
        targets = torch.arange(count) % 2
        angle = 0.5 + 6.0 * torch.rand(count)
        sign = 1.0 - 2.0 * targets
        arm = torch.stack([angle * angle.cos() * sign, angle * angle.sin() * sign], 1) / 3
        return arm + noise * torch.randn(count, 2), targets

    return Samples(*draw(samples), *draw(val_samples))


def perceptron(
    inputs: int, width: int, depth: int, activation: str = "ReLU", normalization: str = "none", outputs: int = 2
) -> nn.Sequential:
    """Return a network with ``depth`` hidden layers of ``width`` units; normalization stands before the activation."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), *NORMALIZATIONS[normalization](width), ACTIVATIONS[activation]()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def train(
    model: nn.Module,
    data: Samples,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int,
    batch: int,
    every: int = 10,
    loss_fn: Callable[[Any, Any], Tensor] = F.cross_entropy,
    before_step: Callable[[int], None] = lambda step: None,
    before_update: Callable[[], object] = lambda: None,
) -> Losses:
    """Train with random batches, or with all samples if they are no more than a batch, and return the losses.

    ``before_step`` is called with the number of each step, and ``before_update`` when its gradients are computed.
    """
    training, validation = [], []
    for step in range(steps):
        before_step(step)
        rows = torch.randint(len(data.targets), (batch,)) if batch < len(data.targets) else slice(None)
        loss = loss_fn(model(data.inputs[rows]), data.targets[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        before_update()
        optimizer.step()
        training.append((float(step), min(float(loss.detach().nan_to_num(MAX_LOSS)), MAX_LOSS)))
        if step % every == 0 or step == steps - 1:
            validation.append((float(step), evaluate(model, data.val_inputs, data.val_targets, loss_fn)))
        if training[-1][1] >= MAX_LOSS:
            break
    return Losses(tuple(training), tuple(validation))


def evaluate(
    model: nn.Module, inputs: Tensor, targets: Tensor, loss_fn: Callable[[Any, Any], Tensor] = F.cross_entropy
) -> float:
    """Return the loss without a gradient, at most MAX_LOSS."""
    with torch.no_grad():
        loss = loss_fn(model(inputs), targets)
    return min(float(loss.nan_to_num(MAX_LOSS)), MAX_LOSS)
