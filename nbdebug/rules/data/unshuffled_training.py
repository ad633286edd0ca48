"""D116: training batches arrive ordered by class."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.order import Order
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup


@rule("D116", "warning")
def unshuffled_training(label_order: Order, *, share: float = 0.5, level: float = 0.001) -> Iterator[Finding]:
    """Training batches arrive ordered by class.

    ## What it does
    Takes the first batches in the order of the loader and counts how many pairs of samples in one batch have the same
    label, beside pairs drawn from all samples that can be read.

    ## Why it matters
    Each step pulls the model towards the class at hand; what was learned of the others is undone, and batch
    statistics are those of one class.

    ## How it is measured
    On a scale on which shuffled batches stand at 0 and batches of one class each at 1, it speaks from ``share`` = 0.5
    on, that is nearer to sorted than to shuffled, and only when fewer than ``level`` = 1 in 1000 draws of random
    batches are as alike.

    ## How to fix
    ``shuffle=True``, or a permutation of the data before they are batched.

    ## When to ignore
    When the order is meant, as in a stream that must be followed in time.

    ## References
    L. Bottou, Stochastic Gradient Descent Tricks (2012), 4.1: randomly shuffle the training examples.
    """
    if label_order.sorted >= share and label_order.chance <= level:
        first = ", ".join(str(label) for label in sorted(label_order.batches[0])[:5])
        yield Finding(
            message=f"Training batches are ordered by class: {label_order.within:.0%} of the pairs in a batch have the "
            f"same label, {label_order.overall:.0%} in shuffled ones; the first batch holds {first}.",
            cause="The data are stored class after class, and the loader does not shuffle.",
            fix="train_loader = DataLoader(train_set, batch_size=train_loader.batch_size, shuffle=True)",
            evidence={
                "same label within a batch": label_order.within,
                "same label overall": label_order.overall,
                "chance": label_order.chance,
                "classes of the first batches": label_order.batches,
            },
            explains=("T604", "T605", "T612", "T607", "E702", "E706"),
        )


def bad() -> Setup:
    """Data sorted by class, in order."""
    x, y = points()
    order = torch.argsort(y)
    return program(network(3), x[order], y[order], nn.CrossEntropyLoss())


def good() -> Setup:
    """Data in random order."""
    return classifier()
