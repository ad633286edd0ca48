"""M319: far more parameters than the data can pin down, with nothing regularizing them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.regularizers import Regularizers
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup


@rule("M319", "note")
def parameters_per_sample(setup: Setup, regularizers: Regularizers, *, times: float = 100.0) -> Iterator[Finding]:
    """The model has far more parameters than the data can pin down, and nothing regularizes them.

    ## What it does
    Compares the trainable parameters with what is enough to fit any labels of as many samples, and looks for what
    holds them back: weight decay, dropout or other noise in the model, a data set that draws its samples anew.

    ## Why it matters
    Such a model can learn the training set by heart, noise and wrong labels included. That need not hurt, but it is the
    first thing to think of when the validation loss rises.

    ## How it is measured
    2n + d parameters can fit any n targets of inputs with d values. A note from ``times`` = 100 times as many on, where
    even networks that are known to generalize are usually regularized.

    ## How to fix
    A smaller model, weight decay, dropout, augmentation, or weights that were trained on more data.

    ## When to ignore
    When the weights come from a larger data set, or the validation loss does not rise.

    ## References
    Zhang et al. 2017, arXiv:1611.03530, theorem 1 (2n + d); the factor is a choice.
    """
    if regularizers.found:
        return
    count = sum(one.numel() for one in setup.eager.parameters() if one.requires_grad)
    enough = 2 * regularizers.targets + regularizers.width
    if not regularizers.targets:
        raise NotChecked("it is not known how many samples there are")
    if count > times * enough:
        yield finding(count, enough, regularizers)


def finding(count: int, enough: int, regularizers: Regularizers) -> Finding:
    """How many parameters there are, and how many would do."""
    return Finding(
        message=f"{count:,} parameters train on {regularizers.targets:,} targets: {enough:,} can fit any labels of "
        f"them, and neither weight decay nor noise holds the other {count - enough:,} back.",
        cause="The model is large for the data, and nothing regularizes it.",
        fix="torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)   # or dropout, augmentation",
        evidence={"parameters": count, "targets": regularizers.targets, "enough": enough},
        explains=("T604",),
    )


def wide(units: int) -> Setup:
    """Sixty-four points, and a layer of many units."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, units), nn.ReLU(), nn.Linear(units, 3))
    x, y = points()
    labels: Tensor = y
    return program(model, x, labels, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Two thousand units for sixty-four points."""
    return wide(2000)


def good() -> Setup:
    """Sixteen units."""
    return wide(16)
