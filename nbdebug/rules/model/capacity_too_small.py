"""M314: the model has too few parameters to memorize even the tiny batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.overfit import Overfit


@rule("M314", "warning", prediction=POOR_TRAINING)
def capacity_too_small(overfit: Overfit) -> Iterator[Finding]:
    """The model has too few parameters to memorize even the tiny batch.

    ## What it does
    Compares the number of trainable parameters with the number of target values of a tiny batch that could not be
    memorized, although all gradients are finite and none is missing.

    ## Why it matters
    A model that is too small underfits: no learning rate and no amount of training will reduce the loss.

    ## How it is measured
    By the tiny-batch test, with your settings and with Adam, and by counting: n target values are n equations, which
    fewer than n parameters cannot solve in general. A linear model with few features is not reported, and neither is a
    model with several target values per example, since shared weights are not meant to memorize every pixel.

    ## How to fix
    Make the layers wider, or unfreeze some of them.

    ## When to ignore
    When the model is small on purpose, for a simple relation in noisy data.

    ## References
    Zhang et al. 2017, arXiv:1611.03530: two layers with 2n + d weights fit any labels of n examples in d dimensions.
    """
    if overfit.cause != "capacity":
        return
    last = overfit.last
    yield Finding(
        message=(
            f"In the overfit test of {len(overfit.examples)} examples, "
            f"{overfit.headline[0].lower()}{overfit.headline[1:]}"
        ),
        cause="The model is too small for the examples, or too much of it is frozen.",
        fix="# start with twice the width, then run dbg.overfit() again\nmodel = Model(width=2 * width)",
        evidence={
            "trainable parameters": overfit.trainable,
            "target values": overfit.needed,
            "floor": overfit.floor,
            "goal": overfit.goal,
            "gradient norm at the end": None if last is None else last.gradient,
        },
        explains=("T608",),
    )


def bad() -> Setup:
    """Seven parameters for sixteen random targets."""
    return _random_target_setup(1)


def good() -> Setup:
    """The same model with a wide hidden layer."""
    return _random_target_setup(128)


def _random_target_setup(width: int) -> Setup:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 4, generator=generator), torch.randn(64, 1, generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))
    return minimal_setup(model, x, y, nn.MSELoss(), optimizers=(torch.optim.Adam(model.parameters(), lr=3e-2),))
