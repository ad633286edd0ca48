"""G408: the scale of the activations grows or decays from layer to layer at initialization."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import nn

from nbdebug.evidence.apartness import Apartness, Stage
from nbdebug.evidence.recurrence import Growth
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

EXPLAINS = (
    *("L208", "M306", "M307", "G401", "G402", "G403", "G404", "G415", "G416"),
    *("O501", "T601", "T602", "T607", "T608"),
)
JUMP = 100.0  # times its gain: more than any matrix of independent weights can stretch what goes in
DEFAULT = 3**-0.5  # the gain of a layer as torch makes it: uniform in ±1/√fan_in


@rule("G408", "warning")
def init_scale(
    apartness: Apartness | NotChecked,
    recurrence: list[Growth] | NotChecked,
    *,
    most: float = 1000.0,
    small: float = 0.5,
    large: float = 4.0,
    grown: float = 10.0,
) -> Iterator[Finding]:
    """The scale of the activations grows or decays from layer to layer, or from step to step of a sequence.

    ## What it does
    Follows one batch through the layers, and compares how far the samples lie apart behind the first layer and before
    the last one. Follows the state of a recurrent layer with ReLU along the first batch.

    ## Why it matters
    The gradient takes the same way back: with each layer that multiplies by ten it does too, and no single learning
    rate fits the first and the last layer. Scores that are too large are confident and wrong; too small, and nothing
    moves for a long time.

    ## How it is measured
    By the standard deviation over the samples. It speaks at a factor of ``most`` = 1000. Torch's own initialization
    makes signals smaller with depth too, which normalization and Adam put up with: decay is only accused where the
    weights are, on the geometric mean, less than ``small`` = half as large as torch draws them. Where they are over
    ``large`` = 4 times 1/√fan_in, about thrice what ReLU wants, in every layer, a factor of ``grown`` = 10 is enough:
    in a few layers it is the weights that tell. Where samples come apart by more than the weights of a layer can
    stretch them, as at the first word of all sentences, it is silent.
    A recurrent state grows too fast when the second half of a sequence alone makes it √``most`` times as large, and the
    inputs do not grow: a state that adds up its inputs doubles there.

    ## How to fix
    Initialize for the activation (He for ReLU, Xavier for tanh), or normalize between the layers.

    ## When to ignore
    When the model has been trained, and trains well.

    ## References
    Glorot and Bengio 2010; He et al. 2015, arXiv:1502.01852, section 2.2: the variance behind L layers is a product of
    L factors, which must be 1. The factor of 1000 is a choice: half of float16's resolution (2^11).
    """
    worst = max([] if isinstance(recurrence, NotChecked) else recurrence, key=lambda one: one.factor, default=None)
    if worst is not None and worst.factor > math.sqrt(most):
        yield over_time(worst)
        return
    if isinstance(apartness, NotChecked):
        raise apartness
    stages = [one for one in apartness.passages[0].stages if one.gain is not None]
    if len(stages) < 3 or not stages[1].scale:
        raise NotChecked("fewer than three layers, or samples that do not differ behind the first")
    ratio = stages[-1].scale / stages[1].scale
    if not math.isfinite(ratio):
        raise NotChecked("the activations are not finite")
    if any(two.scale > JUMP * max(two.gain or 0.0, 1.0) * one.scale for one, two in pairwise(stages[1:])):
        raise NotChecked("the samples are alike in one layer and come apart in the next")
    grows = ratio > most or (ratio > grown and min(one.gain or 0.0 for one in stages) > large)
    if grows or (ratio < 1 / most and mean_gain(stages) < small * DEFAULT):
        yield finding(stages, ratio)


def over_time(found: Growth) -> Finding:
    """A recurrent layer whose state grows with every step."""
    each, name = found.factor ** (2 / found.steps), f"model.{found.module}".rstrip(".")
    return Finding(
        message=f"From the middle of a sequence of {found.steps} steps to its end, the state of {name} grows by "
        f"a factor of {found.factor:.2g} (about {each:.2g} a step), expected 2 at most.",
        where=Where(found.module or None),
        cause="ReLU bounds no state, and the recurrent weights make it larger at each step.",
        fix=f"torch.nn.init.orthogonal_({name}.weight_hh_l0)   # or the identity; or nonlinearity='tanh'",
        evidence={"steps": found.steps, "factor": found.factor, "a step": each},
        explains=EXPLAINS,
    )


def mean_gain(stages: Sequence[Stage]) -> float:
    """The geometric mean of the gains of the layers between the first and the last."""
    logs = [math.log(max(one.gain or 0.0, 1e-12)) for one in stages[1:-1]]
    return math.exp(sum(logs) / len(logs))


def finding(stages: Sequence[Stage], ratio: float) -> Finding:
    """The factor over all layers, and the layer that takes the largest part in it."""
    factors = [after.scale / before.scale if before.scale else 0.0 for before, after in pairwise(stages[1:])]
    worst = max(range(len(factors)), key=lambda i: factors[i] if ratio > 1 else -factors[i])
    place, each = stages[1 + worst], ratio ** (1 / len(factors))
    times = max(ratio, 1 / ratio) if ratio else math.inf
    name = place.where.module or place.name
    return Finding(
        message=f"From the first layer to the last the signal {'grows' if ratio > 1 else 'shrinks'} by a factor of "
        f"{times:.2g} (about {each:.2g} a layer, {factors[worst]:.2g} in {name}), "
        "expected 1.",
        where=place.where,
        cause=f"The weights of {name} have {place.gain:.2g} times the deviation 1/√fan_in; ReLU wants 1.4, tanh 1.",
        fix="torch.nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')   # of each layer, with zero biases",
        evidence={"scale": [one.scale for one in stages], "gain": [one.gain for one in stages], "ratio": ratio},
        explains=EXPLAINS,
    )


def deep(deviation: float) -> Setup:
    """Six layers of sixteen units, drawn with a deviation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [one for _ in range(5) for one in (nn.Linear(16, 16), nn.ReLU())]
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), *layers, nn.Linear(16, 3))
        for layer in list(model)[:-1]:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=deviation)
                nn.init.zeros_(layer.bias)
    return program(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Weights of a standard normal distribution, without any scale."""
    return deep(2.0)


def good() -> Setup:
    """The scale that ReLU wants: the root of two over the fan-in."""
    return deep((2 / 16) ** 0.5)
