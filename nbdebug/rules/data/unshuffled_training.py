"""D116: training batches are ordered by class."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.measurements.labels import LabelOrder
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup


@rule("D116", "warning", origin="loader", prediction=POOR_TRAINING)
def unshuffled_training(label_order: LabelOrder, *, share: float = 0.5, level: float = 0.001) -> Iterator[Finding]:
    """Training batches are ordered by class.

    ## What it does
    Takes the first batches in the order of the loader and counts the pairs of samples in one batch that have the same
    label, compared with pairs drawn from all samples that can be read.

    ## Why it matters
    Each step moves the model towards the current class and undoes what it learned about the others, and the batch
    statistics are those of one class.

    ## How it is measured
    On a scale from 0 for shuffled batches to 1 for batches of one class each. It is reported from ``share`` = 0.5, that
    is closer to sorted than to shuffled, and only if fewer than ``level`` = 1 in 1000 random batch orders are as
    sorted.

    ## How to fix
    ``shuffle=True``, or permute the data before they are batched.

    ## When to ignore
    When the order is intended, as in a stream that must be processed in time order.

    ## References
    L. Bottou, Stochastic Gradient Descent Tricks (2012), 4.1: randomly shuffle the training examples.
    """
    if label_order.sortedness >= share and label_order.p_value <= level:
        first = ", ".join(str(label) for label in sorted(label_order.class_counts[0])[:5])
        yield Finding(
            message=f"Training batches are ordered by class: {label_order.batch_agreement:.0%} of the pairs in a "
            f"batch have the same label, compared with {label_order.overall_agreement:.0%} if shuffled. Labels in the "
            f"first batch: {first}.",
            cause="The data are sorted by class, and the loader does not shuffle.",
            fix="train_loader = DataLoader(train_set, batch_size=train_loader.batch_size, shuffle=True)",
            evidence={
                "same label within a batch": label_order.batch_agreement,
                "same label overall": label_order.overall_agreement,
                "chance": label_order.p_value,
                "classes of the first batches": label_order.class_counts,
            },
            explains=("T604", "T605", "T612", "T607", "E702", "E706"),
        )


def bad() -> Setup:
    """Data sorted by class."""
    x, y = points()
    order = torch.argsort(y)
    return minimal_setup(network(3), x[order], y[order], nn.CrossEntropyLoss())


def good() -> Setup:
    """Data in random order."""
    return classifier()
