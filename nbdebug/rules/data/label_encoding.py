"""D102: targets are not in the form that the loss expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.tables import Table
from nbdebug.finding import Finding
from nbdebug.graph.search import line_of, scales_labels
from nbdebug.graph.source import where_of
from nbdebug.loop.disproved import OPERANDS, RAISES
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored
from nbdebug.setup.losses import Kind, named, scores
from nbdebug.setup.trees import described, tensors

Misfit = tuple[str, str]
REFUSING: tuple[Kind, ...] = ("cross-entropy", "nll", "bce", "bce-with-logits")  # misfits that torch does not take


@rule("D102", "error")
def label_encoding(
    setup: Setup, first_pass: Pass, output: Any, loss_kind: Kind, tables: dict[str, Table]
) -> Iterator[Finding]:
    """Targets do not have the shape, dtype or encoding that the loss expects.

    ## What it does
    Compares shape and dtype of the target with what the loss is defined for: class indices (int64, without an axis for
    the classes) or probabilities (floats, with it) for cross-entropy; floats of the shape of the output for binary
    cross-entropy; as many targets as outputs for all. Names training labels that are all the same where those of the
    validation split are not.

    ## Why it matters
    Some of these raise an error that speaks of dtypes and not of labels; others broadcast and train on nonsense. With
    one label for all, the loss falls to nothing and nothing is learned.

    ## How it is measured
    On the target and the output of the first batch, before torch's own error is shown; one label for all on every
    training sample, when all can be read.

    ## How to fix
    The line that is given, where the targets are made.

    ## When to ignore
    Never, for torch's own losses; a loss of your own is judged only when one of them raised inside it.

    ## References
    Documentation of torch.nn.CrossEntropyLoss, BCEWithLogitsLoss and MSELoss, section on shapes.
    """
    target = next(iter(tensors(first_pass.batch.targets)), None)
    logits = scores(output)
    reshaped = named(setup.loss_fn) == "other" and first_pass.failure is None
    if target is None or not isinstance(logits, Tensor) or loss_kind == "other" or reshaped:
        return
    if loss_kind in ("cross-entropy", "nll"):
        yield from one_label(setup, tables)
    misfit = wrong_length(logits, target) or FORMS[loss_kind](logits, target)
    if misfit:
        message, repair = misfit
        yield Finding(
            message=f"{message} (output {described(logits)}, target {described(target)}).",
            where=where_of(first_pass.line),
            cause=f"The target is not in the form that {loss_kind} is defined for.",
            fix=repair,
            evidence={
                "output": described(logits),
                "target": described(target),
                "raised": str(first_pass.failure or ""),
            },
            explains=("L205", "L207", "L208", "L211", "L214", "D101", "T601", "T607", "T608", "E706"),
            assumes=(RAISES if first_pass.failure or loss_kind in REFUSING else OPERANDS,),
        )


def one_label(setup: Setup, tables: dict[str, Table]) -> Iterator[Finding]:
    """The finding on a training split of one class beside a validation split of several."""
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or not train.whole or train.labels is None or val.labels is None:
        return
    here, there = set(train.labels.tolist()), set(val.labels.tolist())
    if len(here) == 1 < len(there):
        line = line_of(scales_labels, authored(setup))
        yield Finding(
            where=where_of(line),
            message=f"All {len(train)} training labels are {next(iter(here))}; those of the validation split have "
            f"{len(there)} values, from {min(there)} to {max(there)}.",
            cause="The labels were scaled with the inputs and cast to whole numbers, or the split holds one class.",
            fix="x = x / 255   # the inputs only; leave the labels as they are",
            evidence={"training labels": sorted(here), "validation labels": sorted(there)[:50], "samples": len(train)},
            explains=("D106", "D110", "D119", "G415", "G416", "M307", "T607", "T609", "E702", "E706", "E709"),
        )


def wrong_length(logits: Tensor, target: Tensor) -> Misfit | None:
    """Targets of another number than the outputs."""
    if logits.dim() and target.dim() and len(logits) != len(target):
        return (
            f"{len(logits)} outputs meet {len(target)} targets",
            "# make the data set return one target for each input, and the model keep the batch axis first",
        )
    return None


def for_classes(logits: Tensor, target: Tensor) -> Misfit | None:
    """Class indices, or probabilities over the classes."""
    same = target.dim() == logits.dim()
    if target.is_floating_point():
        if same and target.shape == logits.shape:
            return None
        return "Class labels are floats", "target = target.long()" + (".squeeze(1)" if same else "")
    if same and target.shape == logits.shape and logits.dim() > 1:
        return "Class labels are one-hot integers", "target = target.argmax(dim=1)"
    if same and logits.dim() > 1:
        return "Class labels have an axis too many", "target = target.squeeze(1)"
    if target.dtype not in (torch.int64, torch.uint8):
        return f"Class labels are {str(target.dtype).removeprefix('torch.')}", "target = target.long()"
    return None


def for_probabilities(logits: Tensor, target: Tensor) -> Misfit | None:
    """Floats of the shape of the output."""
    repair = "target = target" if target.is_floating_point() else "target = target.float()"
    if target.shape != logits.shape:
        column = logits.dim() == target.dim() + 1 and logits.shape[-1] == 1
        match = ".unsqueeze(1)" if column else f".view({tuple(logits.shape)})"
        return "Binary targets have another shape than the output", repair + match
    if not target.is_floating_point():
        return "Binary targets are integers", repair
    return None


def for_values(logits: Tensor, target: Tensor) -> Misfit | None:
    """Floats."""
    if not target.is_floating_point() and logits.is_floating_point():
        return "Targets of a regression are integers", "target = target.float()"
    return None


FORMS: dict[Kind, Callable[[Tensor, Tensor], Misfit | None]] = {
    "cross-entropy": for_classes,
    "nll": for_classes,
    "bce": for_probabilities,
    "bce-with-logits": for_probabilities,
    "squared": for_values,
    "absolute": for_values,
}


def bad() -> Setup:
    """Class labels that are floats."""
    x, y = points()
    return program(network(3), x, y.float(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Class labels that are integers."""
    return classifier()
