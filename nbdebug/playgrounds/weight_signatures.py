"""Weight signatures: what the distribution of the weights of a layer shows about its training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import perceptron, spirals, train
from nbdebug.views.line_chart import LineChart

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": torch.optim.SGD,
    "Adam": torch.optim.AdamW,  # its weight decay acts on the weights alone, as that of SGD without momentum
}
_WIDTH, _BINS, _REACH = 64, 41, 4.0  # the histogram covers so many standard deviations on both sides
_COLLAPSED, _EXPLODED = 0.3, 5.0  # standard deviation, as a multiple of that at the start
_BIMODAL = 0.7  # coefficient of bimodality: 5/9 for a uniform distribution, as at the start, and 1 for two points


def _compute(optimizer: str, rate: float, decay: float, steps: int) -> PlayPicture:
    """Return the histogram and the singular values of a hidden layer before and after training."""
    data, model = spirals(), perceptron(2, _WIDTH, 2, "tanh")
    weight = [layer.weight for layer in model if isinstance(layer, nn.Linear)][1]
    before = weight.detach().clone()
    update = _OPTIMIZERS[optimizer](model.parameters(), lr=rate, weight_decay=decay)
    losses = train(model, data, update, steps=steps, batch=64)
    after = weight.detach()
    tone, headline, explanation = _judge(before, after)
    pair = {"before training": before, "after training": after}
    charts = (
        LineChart(
            "Distribution of the weights, each in its own unit",
            "standard deviations",
            series={name: _histogram(weights) for name, weights in pair.items()},
        ),
        LineChart(
            "Singular values",
            "number",
            series={name: _singular_values(weights) for name, weights in pair.items()},
            log=True,
        ),
        LineChart("Loss", series={"training": losses.training, "validation": losses.validation}),
    )
    return PlayPicture(charts, tone, headline, f"{explanation} The loss ends at {losses.last:.3g}.")


def _histogram(weights: Tensor) -> list[tuple[float, float]]:
    """Return the center of each bin, in standard deviations, with the share of the weights in it."""
    scaled = (weights / weights.std()).nan_to_num(0.0)
    counts = torch.histc(scaled, _BINS, -_REACH, _REACH) / weights.numel()
    centers = torch.linspace(-_REACH, _REACH, 2 * _BINS + 1)[1::2]
    return list(zip(centers.tolist(), counts.tolist(), strict=True))


def _singular_values(weights: Tensor) -> list[tuple[float, float]]:
    if not bool(weights.isfinite().all()):
        return []
    return list(enumerate(torch.linalg.svdvals(weights).tolist(), 1))


def _bimodality(weights: Tensor) -> float:
    """Return the coefficient of bimodality, (skewness² + 1) / kurtosis.

    Pfister et al. 2013, doi:10.3389/fpsyg.2013.00700.
    """
    scaled = (weights - weights.mean()) / weights.std(correction=0)
    return float((scaled.pow(3).mean() ** 2 + 1) / scaled.pow(4).mean())


def _judge(before: Tensor, after: Tensor) -> tuple[Tone, str, str]:
    ratio, shape = float(after.std() / before.std()), _bimodality(after)
    text = f"The standard deviation is {ratio:.2g} times that at the start"
    if not ratio < float("inf"):
        return "error", "Exploded: the weights are no longer numbers.", "The run diverged. Lower the rate."
    if ratio < _COLLAPSED:
        reason = "The decay shrinks the weights by more than the gradient restores: the layer maps all inputs to one."
        return "error", f"Collapsed: {text}.", f"{reason} Lower the weight decay."
    if shape > _BIMODAL:
        reason = (
            "The first steps of Adam move every weight by the whole rate, up or down. With a rate above the initial "
            "weights, only the signs of the first gradients are left."
        )
        return "error", f"Bimodal: the coefficient of bimodality is {shape:.2f}. {text}.", f"{reason} Lower the rate."
    if ratio > _EXPLODED:
        reason = "The steps are large compared with the weights, and nothing pulls them back."
        return "error", f"Exploded: {text}.", f"{reason} Lower the rate, or add weight decay."
    reason = "One peak around zero, a few larger singular values, and a size close to that of the initialization."
    return "good", f"Healthy: {text}.", reason


PLAYGROUND = Playground(
    name="weight-signatures",
    title="Weight signatures",
    question="What do the weights of a layer show? Make them healthy, collapsed, exploded and bimodal.",
    controls=(
        Control("optimizer", "Optimizer", tuple(_OPTIMIZERS), "Adam"),
        Control("rate", "Learning rate", (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), 0.003),
        Control("decay", "Weight decay", (0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0), 0.0),
        Control("steps", "Steps", (1, 3, 10, 30, 100, 300), 300),
    ),
    compute=_compute,
)
