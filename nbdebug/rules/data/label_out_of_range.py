"""D101: a class index that the output has no place for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.rows import Rows
from nbdebug.evidence.spared import dropped_labels, wrapped_labels
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup, losses


@rule("D101", "error")
def label_out_of_range(
    setup: Setup, first_pass: Pass, output: Any, class_axis: int | NotChecked, rows: list[Rows]
) -> Iterator[Finding]:
    """A class index is negative or not under the number of outputs.

    ## What it does
    Compares the class indices of every sample that can be read with the number of outputs. The ignore index of the
    loss (-100 unless set) is allowed, and so is a label that a loss of your own drops.

    ## Why it matters
    Cross-entropy raises an index error on the batch that holds the sample; on a GPU it ends the process with a
    device-side assertion that names neither the sample nor the label.

    ## How it is measured
    Exactly, by the indices. A loss of your own is asked with such a label in the first batch: one that raises, or that
    takes -1 for the last class, as Python's indexing does, does not drop it. A loss of your own that indexes the scores
    by hand is asked about negative labels alone.

    ## How to fix
    Number the classes from 0, and give the head one output for each.

    ## When to ignore
    Never: the loss is not defined there.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: class indices in the range [0, C).
    """
    if isinstance(class_axis, NotChecked):
        yield from wrapped_around(setup, first_pass, output, class_axis, rows)
        return
    classes, ignored = losses.scores(output).shape[class_axis], left_out(setup, first_pass)
    for part in rows:
        labels = part.targets[0] if part.targets and isinstance(part.targets[0], Tensor) else None
        if labels is None or labels.is_floating_point() or not labels.dim():
            continue
        wrong = ((labels < 0) | (labels >= classes)) & (labels != ignored)
        for label in dropped_labels(setup, first_pass.batch, output, sorted(set(labels[wrong].tolist())), classes):
            wrong &= labels != label
        if bool(wrong.any()):
            yield finding(part, labels, wrong, classes)


def wrapped_around(setup: Setup, first_pass: Pass, output: Any, why: NotChecked, rows: list[Rows]) -> Iterator[Finding]:
    """Negative labels that a loss of the user's own takes for the last classes; raises NotChecked for other outputs."""
    scores, target = losses.scores(output), first_pass.batch.target
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor) or scores.dim() != 2 or target.dim() != 1:
        raise why
    classes = scores.shape[1]
    if classes < 2 or target.is_floating_point():
        raise why
    told = set[str]()
    for part in rows:
        labels = part.targets[0] if part.targets and isinstance(part.targets[0], Tensor) else None
        if labels is None or labels.is_floating_point() or labels.dim() != 1:
            continue
        wrapped = wrapped_labels(setup, first_pass.batch, output, set(labels[labels < 0].tolist()), classes)
        if wrapped and part.split not in told:
            told.add(part.split)
            yield finding(part, labels, torch.isin(labels, torch.tensor(sorted(wrapped)).to(labels)), classes)


def left_out(setup: Setup, first_pass: Pass) -> int:
    """The label that the loss leaves out: as its operation in the graph says, else as the loss itself does."""
    found = (
        first_pass.trace.graph(first_pass.value).named("NllLoss", "NllLoss2D") if first_pass.value is not None else ()
    )
    number = next((node.saved("ignore_index") for node in found), None)
    return number if isinstance(number, int) else losses.ignore_index(setup.loss_fn)


def finding(part: Rows, labels: Tensor, wrong: Tensor, classes: int) -> Finding:
    """What stands outside, in which samples."""
    marked = wrong.flatten(1).any(1) if wrong.dim() > 1 else wrong
    samples = [int(part.indices[row]) for row in marked.nonzero().flatten().tolist() if row < len(part.indices)]
    values = sorted(set(labels[wrong].tolist()))
    most, from_one = int(labels.max()), int(labels.max()) == classes and int(labels.min()) == 1
    return Finding(
        message=f"Labels {', '.join(map(str, values[:5]))} of {len(samples)} {part.split} samples are outside "
        f"0…{classes - 1}: the output has {classes} classes.",
        where=Where(sample=samples[0] if samples else None),
        cause="Labels are counted from 1." if from_one else "The head has fewer outputs than the labels have classes.",
        fix="labels = labels - 1" if from_one else f"# give the head {most + 1} outputs, or renumber the labels",
        evidence={"split": part.split, "labels": values[:20], "classes": classes, "samples": samples[:20]},
        explains=("L207", "D119", "L208"),
    )


def bad() -> Setup:
    """Labels counted from 1."""
    x, y = points()
    return program(network(3), x, y + 1, nn.CrossEntropyLoss())


def good() -> Setup:
    """Labels counted from 0."""
    return classifier()
