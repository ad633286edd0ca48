"""D101: a class index outside the range of the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.measurements.dataset_rows import SplitRows
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.non_finite import find_ignored_labels, find_wrapped_labels
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup, losses


@rule("D101", "error", origin="targets")
def label_out_of_range(
    setup: Setup, first_pass: ForwardPass, output: Any, class_axis: int | NotChecked, rows: list[SplitRows]
) -> Iterator[Finding]:
    """A class index is negative or not less than the number of outputs.

    ## What it does
    Compares the class indices of every sample that can be read with the number of outputs. The ignore index of the
    loss (-100 by default) is allowed, and so is a label that a custom loss masks.

    ## Why it matters
    Cross-entropy raises an index error on the batch that contains the sample. On a GPU, a device-side assertion ends
    the process and names neither the sample nor the label.

    ## How it is measured
    Exactly, by the indices. A custom loss is evaluated with such a label in the first batch: if it raises, or treats
    -1 as the last class as Python's indexing does, it does not mask the label. A custom loss that indexes the scores
    directly is only tested with negative labels.

    ## How to fix
    Number the classes from 0, and give the head one output for each class.

    ## When to ignore
    Never: the loss is undefined there.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: class indices in the range [0, C).
    """
    if isinstance(class_axis, NotChecked):
        yield from _wrapped_label_findings(setup, first_pass, output, class_axis, rows)
        return
    classes, ignored = losses.score_tensor(output).shape[class_axis], _ignored_label(setup, first_pass)
    for part in rows:
        labels = part.targets[0] if part.targets and isinstance(part.targets[0], Tensor) else None
        if labels is None or labels.is_floating_point() or not labels.dim():
            continue
        wrong = ((labels < 0) | (labels >= classes)) & (labels != ignored)
        for label in find_ignored_labels(setup, first_pass.batch, output, sorted(set(labels[wrong].tolist())), classes):
            wrong &= labels != label
        if bool(wrong.any()):
            yield _finding(part, labels, wrong, classes)


def _wrapped_label_findings(
    setup: Setup, first_pass: ForwardPass, output: Any, reason: NotChecked, rows: list[SplitRows]
) -> Iterator[Finding]:
    """Report negative labels that a custom loss maps to the last classes; raise NotChecked for other outputs."""
    scores, target = losses.score_tensor(output), first_pass.batch.target
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor) or scores.dim() != 2 or target.dim() != 1:
        raise reason
    classes = scores.shape[1]
    if classes < 2 or target.is_floating_point():
        raise reason
    reported_splits = set[str]()
    for part in rows:
        labels = part.targets[0] if part.targets and isinstance(part.targets[0], Tensor) else None
        if labels is None or labels.is_floating_point() or labels.dim() != 1:
            continue
        wrapped = find_wrapped_labels(setup, first_pass.batch, output, set(labels[labels < 0].tolist()), classes)
        if wrapped and part.split not in reported_splits:
            reported_splits.add(part.split)
            yield _finding(part, labels, torch.isin(labels, torch.tensor(sorted(wrapped)).to(labels)), classes)


def _ignored_label(setup: Setup, first_pass: ForwardPass) -> int:
    """Return the ignore index of the loss: from its operation in the graph if possible, else from the loss object."""
    nll_nodes = (
        first_pass.trace.get_graph(first_pass.loss).get_nodes_by_name("NllLoss", "NllLoss2D")
        if first_pass.loss is not None
        else ()
    )
    number = next((node.get_saved("ignore_index") for node in nll_nodes), None)
    return number if isinstance(number, int) else losses.ignore_index(setup.loss_fn)


def _finding(part: SplitRows, labels: Tensor, wrong: Tensor, classes: int) -> Finding:
    is_wrong = wrong.flatten(1).any(1) if wrong.dim() > 1 else wrong
    samples = [int(part.indices[row]) for row in is_wrong.nonzero().flatten().tolist() if row < len(part.indices)]
    values = sorted(set(labels[wrong].tolist()))
    max_label, from_one = int(labels.max()), int(labels.max()) == classes and int(labels.min()) == 1
    return Finding(
        message=f"Labels {', '.join(map(str, values[:5]))} of {len(samples)} {part.split} samples are outside "
        f"0…{classes - 1}: the output has {classes} classes.",
        where=Location(sample=samples[0] if samples else None),
        cause="Labels start at 1." if from_one else "The head has fewer outputs than there are classes.",
        fix="labels = labels - 1" if from_one else f"# give the head {max_label + 1} outputs, or renumber the labels",
        evidence={"split": part.split, "labels": values[:20], "classes": classes, "samples": samples[:20]},
        explains=("L207", "D119", "L208"),
    )


def bad() -> Setup:
    """Labels start at 1."""
    x, y = points()
    return minimal_setup(network(3), x, y + 1, nn.CrossEntropyLoss())


def good() -> Setup:
    """Labels start at 0."""
    return classifier()
