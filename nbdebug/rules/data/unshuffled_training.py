"""D116: training batches are ordered by class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.finding import Finding
from nbdebug.measurements.labels import LabelOrder
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.loaders import find_ordering_sampler


@rule("D116", "warning", origin="loader", prediction=POOR_TRAINING)
def unshuffled_training(
    setup: Setup, label_order: LabelOrder, *, share: float = 0.5, level: float = 0.001
) -> Iterator[Finding]:
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
    ``shuffle=True``, or permute the data before they are batched. A sampler of your own must draw in a random order.

    ## When to ignore
    When the order is intended, as in a stream that must be processed in time order.

    ## References
    L. Bottou, Stochastic Gradient Descent Tricks (2012), 4.1: randomly shuffle the training examples.
    """
    if label_order.sortedness >= share and label_order.p_value <= level:
        first = ", ".join(str(label) for label in sorted(label_order.class_counts[0])[:5])
        batches = len(label_order.class_counts)
        cause, fix = _explain(setup.train_loader)
        yield Finding(
            message=f"Training batches are ordered by class: {label_order.batch_agreement:.0%} of the pairs of samples "
            f"within the first {f'{batches} batches' if batches > 1 else 'batch'} have the same label, compared with "
            f"{label_order.overall_agreement:.0%} if shuffled. Labels in the first batch: {first}.",
            cause=cause,
            fix=fix,
            evidence={
                "same label within a batch": label_order.batch_agreement,
                "same label overall": label_order.overall_agreement,
                "chance": label_order.p_value,
                "classes of the first batches": label_order.class_counts,
            },
            explains=("T604", "T605", "T612", "T607", "E702", "E706"),
        )


def _explain(loader: Any) -> tuple[str, str]:
    """Return the cause and the fix, by what decides the order of the samples."""
    if (sampler := find_ordering_sampler(loader)) is not None:
        name = type(sampler).__name__
        return (
            f"{name} draws the samples in an order that goes with their class.",
            f"order = torch.randperm(len(train_set)).tolist()   # in {name}.__iter__: take the indices in this order; "
            "if it sorts by length, sort only within pools of several batches, and yield the batches in random order",
        )
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        name = type(loader.dataset).__name__
        return (
            f"{name} yields its samples sorted by class, and a stream is not shuffled.",
            f"# in {name}.__iter__: permute the source, or draw from a buffer of many samples",
        )
    if isinstance(loader, DataLoader):
        return (
            "The data are sorted by class, and the loader does not shuffle.",
            "Create the train loader with shuffle=True.",
        )
    return (
        "The samples were put into batches in the order of their class.",
        "order = torch.randperm(len(x))   # before batching: x, y = x[order], y[order]",
    )


def bad() -> Setup:
    """Data sorted by class."""
    x, y = points()
    order = torch.argsort(y)
    return minimal_setup(network(3), x[order], y[order], nn.CrossEntropyLoss())


def good() -> Setup:
    """Data in random order."""
    return classifier()
