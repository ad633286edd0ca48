"""Batch noise: what the batch size changes in the gradient, the loss curve and the number of steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import Samples, perceptron, spirals, train
from nbdebug.views.line_chart import LineChart

_SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
_SAMPLES_SEEN, _DRAWS = 4096, 24
_REFERENCE_SIZE = 32  # at this batch size, the rate is the same with every scaling
_SCALINGS = {"none": 0.0, "square root": 0.5, "linear": 1.0}


def _compute(batch: int, rate: float, scaling: str) -> PlayPicture:
    """Return the loss by samples seen, and the noise of the gradient by batch size at the first weights."""
    data = spirals()
    model = perceptron(2, 32, 2)
    noise = {size: _relative_noise(model, data, size) for size in _SIZES}
    scaled = rate * (batch / _REFERENCE_SIZE) ** _SCALINGS[scaling]
    optimizer = torch.optim.SGD(model.parameters(), lr=scaled)
    losses = train(model, data, optimizer, steps=_SAMPLES_SEEN // batch, batch=batch, every=max(1, 256 // batch))
    series = {
        "training": [(step * batch, loss) for step, loss in losses.training],
        "validation": [(step * batch, loss) for step, loss in losses.validation],
    }
    charts = (
        LineChart(f"Loss, batches of {batch}, rate {scaled:.3g}", "samples seen", series=series),
        LineChart(
            "Noise of the gradient by batch size",
            "batch size",
            series={
                "noise / gradient": list(noise.items()),
                "1 / √size": [(size, noise[2] * (2 / size) ** 0.5) for size in _SIZES],
            },
            log=True,
            log_x=True,
            marks=[(batch, "your size")],
        ),
    )
    end = losses.validation[-1][1]
    steps = len(losses.training)
    tone, explanation = _judge(noise[batch], steps)
    headline = f"Noise is {noise[batch]:.2g} times the gradient; {steps} steps end at a loss of {end:.3g}."
    return PlayPicture(charts, tone, headline, explanation)


def _relative_noise(model: nn.Module, data: Samples, size: int) -> float:
    """Return the root mean square distance of batch gradients from the gradient of all samples, over its norm."""
    whole = _gradient(model, data.inputs, data.targets)
    distances = []
    for _ in range(_DRAWS):
        rows = torch.randint(len(data.targets), (size,))
        distances.append((_gradient(model, data.inputs[rows], data.targets[rows]) - whole).square().sum())
    return float(torch.stack(distances).mean().sqrt() / whole.norm())


def _gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    loss = F.cross_entropy(model(inputs), targets)
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def _judge(noise: float, steps: int) -> tuple[Tone, str]:
    if noise > 2:
        return "warning", (
            "Most of each step is noise: it shows as a ragged curve. A larger batch or a lower rate averages it out; "
            "per sample, small batches still learn fast."
        )
    if steps < 100:
        return "warning", (
            "The direction is almost exact, but there are few steps for the samples seen. A larger batch needs a "
            "higher rate (move the scaling) or more epochs."
        )
    return "note", (
        "The noise falls as one over the square root of the size: four times the samples halve it. Beyond the size at "
        "which noise and gradient are equal, larger batches save fewer and fewer steps (McCandlish et al. 2018)."
    )


PLAYGROUND = Playground(
    name="batch-noise",
    title="Batch size and noise",
    question="What does a larger batch buy, and what does it cost?",
    controls=(
        Control("batch", "Batch size", _SIZES, 8),
        Control("rate", "Learning rate", (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), 0.1),
        Control("scaling", "Rate grows with the batch size", tuple(_SCALINGS), "none"),
    ),
    compute=_compute,
)
