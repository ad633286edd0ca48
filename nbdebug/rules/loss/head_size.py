"""L207: the head has many more outputs than the labels have classes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.loss_reference import ExpectedLoss
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Batch, Setup
from nbdebug.setup.task import LearningTask


@rule("L207", "warning", origin="targets")
def head_size(
    setup: Setup,
    batches: list[Batch],
    tables: dict[str, SplitTable],
    task: LearningTask,
    expected_loss: ExpectedLoss,
    *,
    share: float = 0.25,
    per_class: int = 20,
    least: int = 50,
    unseen: float = 0.01,
    sliver: float = 0.02,
) -> Iterator[Finding]:
    """The head has many more outputs than the labels have classes.

    ## What it does
    Counts the classes among all training labels and compares the count with the number of outputs.

    ## Why it matters
    Usually the labels are wrong: divided by the scale of the images, truncated to a byte, or read from the wrong
    column. Otherwise the head was left over from another task. The model quickly learns never to predict the absent
    classes.

    ## How it is measured
    On the whole training split if all of it was read, for classifiers, also of pixels and steps. Reported when at most
    ``share`` of the outputs occur among at least ``per_class`` labels per output. With fewer labels, reported when at
    most ``sliver`` = 2% of the outputs occur among at least ``least`` labels and fewer than ``unseen`` = 1% of the
    labels are the only one of their class: that share estimates the probability of classes not seen yet.

    ## How to fix
    Check the labels first: ``torch.unique(labels)``. If they are correct, give the head one output per class.

    ## When to ignore
    When the head reserves outputs for classes that come later. Labels of a single class are not reported if reversing
    the positions of an input reverses the outputs, as for candidates of which the first is correct.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: class indices lie in the range of the number of classes. I. J. Good, The
    Population Frequencies of Species and the Estimation of Population Parameters (1953).
    """
    table = tables["train"]
    if task.name != "classification" or not table.is_complete or len(table.targets) != 1:
        return
    (labels,) = table.targets
    if labels.is_floating_point():
        return
    labels = labels[labels >= 0]
    present_classes, counts = torch.unique(labels, return_counts=True)
    size, classes = len(labels), expected_loss.classes
    is_representative = (
        size >= least and int((counts == 1).sum()) < unseen * size and len(present_classes) <= sliver * classes
    )
    if len(present_classes) > max(1, share * classes) or (size < per_class * classes and not is_representative):
        return
    if len(present_classes) == 1 and _outputs_are_positions(setup, batches[0], classes):
        return
    class_list = ", ".join(map(str, present_classes.tolist()[:8])) + (", …" if len(present_classes) > 8 else "")
    yield Finding(
        message=f"The head has {classes} outputs, but the {size:,} labels contain only "
        f"{len(present_classes)} of these classes: {class_list}.",
        cause="A step that computes the labels loses the other classes."
        if len(present_classes) == 1
        else "Either a step that computes the labels loses the other classes, or the head was left over from another "
        "task.",
        fix="Print torch.unique(labels) before and after each step that computes the labels."
        if len(present_classes) == 1
        else f"If these are all classes, give the head {int(present_classes.max()) + 1} outputs; else print "
        "torch.unique(labels, return_counts=True) before and after each step that computes the labels.",
        evidence={"outputs": classes, "classes": len(present_classes), "labels": size},
        explains=("L208", "D105", "D106", "T607", "T609", "M307", "E702", "E703", "E706", "E709", "G415", "G416"),
    )


def _outputs_are_positions(setup: Setup, batch: Batch, count: int) -> bool:
    """Check whether the outputs belong to positions of an input, such as candidates of which the first is correct.

    Then the outputs are reversed with the first positions of the input, or with the last ones.
    """
    answers = EvalOutputs(setup, batch)
    output = answers.predict(batch)[0]
    return any(
        torch.allclose(answers.predict(changed)[0], output.flip(1), rtol=1e-4, atol=1e-5)
        for rows in (slice(0, count), slice(-count, None))
        for changed in [answers.transform_inputs(partial(_reversed, rows=rows, count=count))]
    )


def _reversed(tensor: Tensor, rows: slice, count: int) -> Tensor:
    """Reverse some positions of the samples of a tensor, if it has as many as the ``count``."""
    if tensor.dim() < 2 or tensor.shape[1] < count:
        return tensor
    changed = tensor.clone()
    changed[:, rows] = tensor[:, rows].flip(1)
    return changed


def bad() -> Setup:
    """Labels that were divided to zero, for a head with three classes."""
    x, y = points()
    return minimal_setup(network(3), x, (y / 3).long(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Three classes and three outputs."""
    return classifier()
