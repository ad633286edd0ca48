"""Learning rate: a run at one rate, the end of a run at every rate, and one step of every size."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import MAX_LOSS, Losses, Samples, evaluate, perceptron, spirals, train
from nbdebug.preserve import seed_all
from nbdebug.views.line_chart import LineChart

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": torch.optim.SGD,
    "SGD, momentum 0.9": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    "Adam": torch.optim.Adam,
}
_RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
_STEP_SIZES = tuple(10 ** (-3 + number / 10) for number in range(51))  # 0.001 to 100
_NEAR_BEST = 1.3  # a loss within this factor of the best one, plus the tolerance, counts as good
_TOLERANCE = 0.02


def _compute(optimizer: str, rate: float, steps: int) -> PlayPicture:
    """Return the loss by step, the loss after one step of each size, and the loss at the end by rate."""
    runs, after_one_step = _sweep(optimizer, steps)
    ends = [(each, min(losses.last, MAX_LOSS)) for each, losses in runs.items()]
    chosen, mark = runs[rate], [(rate, "your rate")]
    tone, headline, explanation = _judge(rate, dict(ends))
    charts = (
        LineChart(f"Loss at rate {rate:g}", series={"training": chosen.training, "validation": chosen.validation}),
        LineChart("Loss at the end, by rate", "rate", series={"training": ends}, log=True, log_x=True, marks=mark),
        LineChart(
            "Loss after one step along the gradient, by rate",
            "rate",
            series={"training": after_one_step},
            log=True,
            log_x=True,
            marks=mark,
        ),
    )
    return PlayPicture(charts, tone, headline, explanation)


@cache
def _sweep(optimizer: str, steps: int) -> tuple[dict[float, Losses], list[tuple[float, float]]]:
    """Return a run at each rate, and the loss after one step of each size, all from the same weights."""
    seed_all(0)
    data, start = spirals(), perceptron(2, 32, 2)
    return {rate: _run(start, data, optimizer, rate, steps) for rate in _RATES}, _losses_after_one_step(start, data)


def _run(start: nn.Module, data: Samples, optimizer: str, rate: float, steps: int) -> Losses:
    """Train a copy of the network, always with the same batches."""
    model = perceptron(2, 32, 2)
    model.load_state_dict(start.state_dict())
    seed_all(1)
    return train(model, data, _OPTIMIZERS[optimizer](model.parameters(), lr=rate), steps=steps, batch=32)


def _losses_after_one_step(start: nn.Module, data: Samples) -> list[tuple[float, float]]:
    """Return the loss on all samples after one step of gradient descent of each size, from the first weights."""
    weights = parameters_to_vector(start.parameters()).detach().clone()
    loss = F.cross_entropy(start(data.inputs), data.targets)
    gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(start.parameters()))])
    points = []
    for size in _STEP_SIZES:
        vector_to_parameters(weights - size * gradient, start.parameters())
        points.append((size, evaluate(start, data.inputs, data.targets)))
    vector_to_parameters(weights, start.parameters())
    return points


def _judge(rate: float, ends: dict[float, float]) -> tuple[Tone, str, str]:
    best = min(ends, key=ends.__getitem__)
    text = f"The loss ends at {ends[rate]:.3g}; the best rate is {best:g}, with {ends[best]:.3g}"
    if ends[rate] <= _NEAR_BEST * ends[best] + _TOLERANCE:
        explanation = "A range of rates does almost as well: you need the right magnitude, not the right digits."
        return "good", f"{text}. Yours is good.", explanation
    if rate < best:
        explanation = "The run goes the right way, but it has not gone far. More steps hide a low rate; try them."
        return "warning", f"{text}. Yours is too low.", explanation
    explanation = (
        "Beyond the minimum of the third chart, one step leads up the other side of the valley. Repeated, that is an "
        "oscillation, or a loss that stays at chance (0.693)."
    )
    if not math.isfinite(ends[rate]) or ends[rate] >= MAX_LOSS:
        explanation = "The steps overshoot by more each time, until the loss is no longer a number: the run diverges."
    return "error", f"{text}. Yours is too high.", explanation


PLAYGROUND = Playground(
    name="learning-rate",
    title="Learning rate",
    question="How high may the learning rate be, and how low?",
    controls=(
        Control("optimizer", "Optimizer", tuple(_OPTIMIZERS), "SGD"),
        Control("rate", "Learning rate", _RATES, 0.01),
        Control("steps", "Steps", (50, 100, 200, 400), 200),
    ),
    compute=_compute,
)
