"""E706: almost all predictions are one class, although the targets are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classification_table, healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.statistics.intervals import wilson_interval

if TYPE_CHECKING:
    from nbdebug.tools.errors import Errors

_CONFIDENCE_LEVEL = 0.99


@rule("E706", "error")
def majority_predictor(errors: Errors, *, nearly: float = 0.9, usual: float = 0.8) -> Iterator[Finding]:
    """Almost all predictions are one class, although the targets are not.

    ## What it does
    Counts how often each class is predicted, and how often it is the target.

    ## Why it matters
    The prediction is the same whatever the input. An accuracy that equals the share of that class can look like
    progress.

    ## How it is measured
    The 99% confidence interval (Wilson) of the share of the most common prediction is above ``nearly`` = 0.9, and that
    of the share of rows with this target is below ``usual`` = 0.8. This requires about sixty rows. If the targets are
    more imbalanced than that, a constant prediction can be optimal; E702 and E709 cover that case.

    ## How to fix
    Check the findings that rank above it: a learning rate that killed the network (O501), disconnected inputs or
    gradients (M301, G401), imbalanced training labels (D106). Otherwise weight the classes, or move the threshold.

    ## When to ignore
    Never, unless the rows were selected in this way.

    ## References
    Wilson 1927, doi:10.1080/01621459.1927.10502953. Karpathy 2019, A Recipe for Training Neural Networks.
    """
    table = classification_table(errors)
    matrix = table.matrix
    rows, predicted = int(matrix.sum()), matrix.sum(0)
    top = int(predicted.argmax())
    predicted_count, target_count = int(predicted[top]), int(matrix[top].sum())
    if (
        not rows
        or float(wilson_interval(predicted_count, rows, _CONFIDENCE_LEVEL)[0]) < nearly
        or float(wilson_interval(target_count, rows, _CONFIDENCE_LEVEL)[1]) > usual
    ):
        return
    name = table.classes[top]
    yield Finding(
        message=f"The model predicts {name!r} for {predicted_count} of {rows} rows; only {target_count} "
        f"({target_count / rows:.0%}) are {name!r}.",
        cause="The predictions alone do not show the cause. Possible causes are a network that has not learned, dead "
        "units, and training labels that are mostly this class.",
        fix="dbg.overfit()   # if the model cannot learn sixteen samples either, the fault is in the model or the loss",
        evidence={
            "class": name,
            "predicted": predicted_count,
            "true": target_count,
            "share": target_count / rows,
            "rows": rows,
        },
        explains=("E702", "E703", "E704", "E705", "E709"),
    )


def bad() -> Setup:
    """A learning rate a hundred times too high, which kills every unit."""
    return training_setup(mlp(8, 32, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=1.0)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """A suitable learning rate."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
