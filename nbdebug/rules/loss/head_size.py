"""L207: the head has another size than the labels need."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.expected_loss import Expected
from nbdebug.evidence.rows import Rows
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.task import Task


@rule("L207", "warning")
def head_size(
    rows: list[Rows],
    task: Task,
    expected_loss: Expected,
    *,
    share: float = 0.25,
    per_class: int = 20,
    least: int = 50,
    unseen: float = 0.01,
    sliver: float = 0.02,
) -> Iterator[Finding]:
    """The head has many more outputs than the labels have classes.

    ## What it does
    Counts the classes among all training labels and compares with the number of outputs.

    ## Why it matters
    Mostly the labels are wrong: divided by the scale of the images, cut to a byte, read from the wrong column. Else the
    head was left from another task. A model learns quickly to never give the classes that do not come.

    ## How it is measured
    On the whole training split, where it is at hand in memory, for classifiers: at most ``share`` of the outputs come
    up among at least ``per_class`` labels for each output; or at most a ``sliver`` = 2 % of the outputs
    among fewer, from ``least`` labels on, of which under ``unseen`` = 1 % stand alone in their class: that share
    estimates the labels of classes that are still to come.

    ## How to fix
    Look at the labels first: ``torch.unique(labels)``. If they are right, give the head as many outputs.

    ## When to ignore
    When the head is meant to hold classes that come later.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: class numbers in the range of the number of classes. I. J. Good, The
    Population Frequencies of Species and the Estimation of Population Parameters (1953).
    """
    labels = [one.targets[0] for one in rows if one.split == "train" and one.whole and one.targets]
    if task.name != "classification" or len(labels) != 1 or not isinstance(labels[0], Tensor):
        return
    if labels[0].is_floating_point() or labels[0].dim() != 1:
        return
    found, counts = torch.unique(labels[0], return_counts=True)
    size, classes = len(labels[0]), expected_loss.classes
    all_seen = size >= least and int((counts == 1).sum()) < unseen * size and len(found) <= sliver * classes
    if len(found) > max(1, share * classes) or (size < per_class * classes and not all_seen):
        return
    listed = ", ".join(map(str, found.tolist()[:8])) + (", …" if len(found) > 8 else "")
    yield Finding(
        message=f"Of the {classes} outputs, {len(labels[0]):,} labels use {len(found)}: {listed}.",
        cause="The labels are not what they should be, or the head is left from another task.",
        fix="print(torch.unique(labels, return_counts=True))  # before and after each step that makes them",
        evidence={"outputs": classes, "classes": len(found), "labels": len(labels[0])},
        explains=("L208", "D105", "D106", "T607", "T609", "M307", "E702", "E703", "E706", "E709", "G415", "G416"),
    )


def bad() -> Setup:
    """Labels that were divided away, before a head for three classes."""
    x, y = points()
    return program(network(3), x, (y / 3).long(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Three classes and three outputs."""
    return classifier()
