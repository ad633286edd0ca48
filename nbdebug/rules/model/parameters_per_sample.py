"""M319: far more parameters than the data can determine, without regularization."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.split_statistics import Regularizers
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup


@rule("M319", "note")
def parameters_per_sample(setup: Setup, regularizers: Regularizers, *, times: float = 100.0) -> Iterator[Finding]:
    """The model has far more parameters than the data can determine, and nothing regularizes them.

    ## What it does
    Compares the number of trainable parameters with the number that suffices to fit any labels of the same number of
    samples, and looks for regularization: weight decay, dropout or other noise in the model, or a dataset that augments
    its samples.

    ## Why it matters
    Such a model can memorize the training set, including noise and wrong labels. That need not hurt, but it is the
    first explanation to consider when the validation loss rises.

    ## How it is measured
    2n + d parameters can fit any n targets of inputs with d values. A note is given from ``times`` = 100 times that
    number, where even networks that are known to generalize are usually regularized.

    ## How to fix
    Use a smaller model, weight decay, dropout, augmentation, or weights that were trained on more data.

    ## When to ignore
    When the weights come from a larger dataset, or the validation loss does not rise.

    ## References
    Zhang et al. 2017, arXiv:1611.03530, theorem 1 (2n + d); the factor is a choice.
    """
    if regularizers.kinds:
        return
    count = sum(parameter.numel() for parameter in setup.eager_model.parameters() if parameter.requires_grad)
    sufficient = 2 * regularizers.target_count + regularizers.input_size
    if not regularizers.target_count:
        raise NotChecked("the number of samples is unknown")
    if count > times * sufficient:
        yield _finding(count, sufficient, regularizers)


def _finding(count: int, sufficient: int, regularizers: Regularizers) -> Finding:
    return Finding(
        message=f"The model has {count:,} trainable parameters for {regularizers.target_count:,} targets. "
        f"{sufficient:,} parameters can fit any labels, "
        f"and neither weight decay nor noise constrains the other {count - sufficient:,}.",
        cause="The model is large for the data, and nothing regularizes it.",
        fix="torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)   # or dropout, augmentation",
        evidence={
            "parameters": count,
            "targets": regularizers.target_count,
            "enough": sufficient,
            "unconstrained": count - sufficient,
        },
        explains=("T604",),
    )


def _wide_setup(units: int) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, units), nn.ReLU(), nn.Linear(units, 3))
    x, y = points()
    labels: Tensor = y
    return minimal_setup(model, x, labels, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Two thousand units for sixty-four samples."""
    return _wide_setup(2000)


def good() -> Setup:
    """Sixteen units."""
    return _wide_setup(16)
