"""Loss curves: guess the cause of a curve, then see it. Each run trains a network with one fault, or none."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import perceptron, spirals, train
from nbdebug.preserve import seed_all
from nbdebug.views.line_chart import LineChart


@dataclass(frozen=True)
class _CurveSettings:
    """The settings of a run. ``spike_at`` is a step with 300 times the rate, ``stop_at`` one with a tiny rate."""

    tone: Tone
    explanation: str
    rate: float = 0.01
    width: int = 32
    depth: int = 3
    samples: int = 512
    noise: float = 0.15
    steps: int = 400
    spike_at: int = -1
    stop_at: int = -1


_RUNS: dict[str, _CurveSettings] = {
    "healthy": _CurveSettings("good", "The loss falls fast, then slowly; the validation loss follows it down."),
    "rate too high": _CurveSettings(
        "error",
        "The loss jumps, and stays high or near chance (0.693): each step overshoots the minimum that it aims at. "
        "Lower the rate until the jumps end.",
        rate=0.5,
    ),
    "rate too low": _CurveSettings(
        "warning",
        "The loss falls in a smooth, almost straight line, and is still high at the end. Nothing is wrong but the "
        "speed: raise the rate until the curve bends.",
        rate=2e-5,
    ),
    "overfitting": _CurveSettings(
        "error",
        "The training loss goes to zero while the validation loss rises: with 24 noisy samples, the network memorizes. "
        "More data, weight decay or an earlier end help.",
        samples=24,
        noise=0.6,
        width=64,
    ),
    "exploding spike": _CurveSettings(
        "error",
        "One step with a huge update destroys what was learned. Typical causes are an outlier in a batch or a "
        "schedule; clipping the gradient limits the damage.",
        spike_at=250,
    ),
    "stalled": _CurveSettings(
        "warning",
        "The loss falls, then stops at once and for good, far above the best. The rate was cut to almost zero at step "
        "25: a schedule that ends too early, or layers that were frozen.",
        stop_at=25,
    ),
    "under-capacity": _CurveSettings(
        "warning",
        "Training and validation loss agree, and both stay high: a network with two hidden units cannot "
        "separate spirals. Make the model larger before you tune anything else.",
        width=2,
        depth=1,
        steps=800,
    ),
}


def _compute(example: int, seed: int) -> PlayPicture:
    """Return the losses of the run behind an example; the seed also decides their order."""
    cause = random.Random(seed).sample(list(_RUNS), len(_RUNS))[example - 1]
    run = _RUNS[cause]
    seed_all(seed)
    data = spirals(run.samples, run.noise)
    model = perceptron(2, run.width, run.depth)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.rate)

    def change_rate(step: int) -> None:
        if step in (run.spike_at, run.spike_at + 1, run.stop_at):
            factor = {run.spike_at: 300.0, run.spike_at + 1: 1.0, run.stop_at: 1e-5}[step]
            optimizer.param_groups[0]["lr"] = run.rate * factor

    losses = train(model, data, optimizer, steps=run.steps, batch=min(32, run.samples), before_step=change_rate)
    series = {"training": losses.training, "validation": losses.validation}
    chart = LineChart("Loss", y_label="loss", series=series)
    return PlayPicture((chart,), run.tone, f"{cause}: the loss ends at {losses.last:.3g}.", run.explanation)


PLAYGROUND = Playground(
    name="loss-curves",
    title="Loss curves",
    question="What is behind this curve? Guess first.",
    controls=(
        Control("example", "Example", tuple(range(1, len(_RUNS) + 1)), 1),
        Control("seed", "Seed", tuple(range(8)), 0),
    ),
    compute=_compute,
    guesses=tuple(sorted(_RUNS)),
)
