"""L217: the input or the target of binary cross-entropy is outside [0, 1]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.formatting import join_names
from nbdebug.loop_monitor.conclusions import LOSS_TARGETS_MISMATCH, OUTPUT_VALUES_UNCHANGED
from nbdebug.measurements.endless_targets import EndlessTargets
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Batch, Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.losses import LossKind, get_loss_kind, score_tensor
from nbdebug.source.location import get_location

_CONSEQUENCES = (
    "X1039",
    *("L207", "L208", "L211", "L213", "D101", "G402", "G404", "G410", "G412", "T602", "T604", "T605", "T608", "T610"),
    *("O501", "E702", "E706", "E709"),
)
_MAX_CLASSES, _MIN_MARK = 1000, 99  # 99 and 255 mark unknown labels, 2 is a class
_BINARY_NODES = ("BinaryCrossEntropy", "BinaryCrossEntropyWithLogits")


@rule("L217", "error", origin="loss")
def probability_outside_unit(
    setup: Setup,
    first_pass: ForwardPass,
    batches: list[Batch],
    output: Any,
    loss_kind: LossKind,
    endless_targets: EndlessTargets | NotChecked | None,
) -> Iterator[Finding]:
    """The input or the target of binary cross-entropy is outside [0, 1].

    ## What it does
    Checks the targets of binary cross-entropy, with or without logits, and the outputs if they have to be
    probabilities. Of a loss of your own, checks whether it has a minimum for each value of the targets.

    ## Why it matters
    For a target above 1 the loss has no minimum: it decreases without bound as the output grows, and the weights grow
    with it. Torch rejects an output outside the unit interval; on a GPU this is an assertion that ends the process.

    ## How it is measured
    On the targets of the first batches and the output of the first batch; for a custom loss, on the tensors that binary
    cross-entropy has saved for the backward pass. A loss of your own with one output per sample, and with 3 to 20 whole
    numbers as targets, is computed for a batch with one target value and outputs of 0, 50 and 100, and of -50 and -100.
    It has a minimum for 0 and 1. For another value it falls below zero, and no slower at the larger outputs.

    ## How to fix
    Class indices: one output per class, and cross-entropy. Real values: squared error. Logits: the with-logits loss.
    Labels of -1 and 1, or of 0 and 255: map them to 0 and 1. A mark of unknown labels: leave them out of the loss.

    ## When to ignore
    No exception is known.

    ## References
    Documentation of torch.nn.BCELoss: targets and inputs lie between 0 and 1.
    """
    if isinstance(endless_targets, EndlessTargets):
        yield _endless_finding(setup, endless_targets)
    if loss_kind not in ("bce", "bce-with-logits"):
        return
    predictions, targets = _read_operands(setup, first_pass, batches, output)
    if loss_kind == "bce" and isinstance(predictions, Tensor) and (share := _share_outside_unit(predictions.detach())):
        yield _output_finding(first_pass, predictions.detach(), share)
    if targets and (share := _share_outside_unit(torch.cat([item.detach().float().flatten() for item in targets]))):
        yield _target_finding(setup, first_pass, targets, share)


def _read_operands(
    setup: Setup, first_pass: ForwardPass, batches: list[Batch], output: Any
) -> tuple[Any, list[Tensor]]:
    """Return the predictions and targets that binary cross-entropy compares; a custom loss may derive both."""
    if get_loss_kind(setup.loss_fn) != "other" or first_pass.loss is None:
        return score_tensor(output), [item.target for item in batches if isinstance(item.target, Tensor)]
    nodes = first_pass.trace.get_graph(first_pass.loss).get_nodes_by_name(*_BINARY_NODES)
    pairs = [(node.get_saved("self"), node.get_saved("target")) for node in nodes]
    targets = [target for _, target in pairs if isinstance(target, Tensor)]
    return next((prediction for prediction, _ in pairs), None), targets


def _share_outside_unit(values: Tensor) -> float:
    finite = values[torch.isfinite(values)]
    return float(((finite < 0) | (finite > 1)).float().mean()) if finite.numel() else 0.0


def _output_finding(first_pass: ForwardPass, predictions: Tensor, share: float) -> Finding:
    low, high = float(predictions.min()), float(predictions.max())
    return Finding(
        message=f"{share:.0%} of the outputs of the first batch are not probabilities: they range from {low:.3g} to "
        f"{high:.3g}.",
        where=get_location(first_pass.line),
        cause="Binary cross-entropy expects probabilities, but the outputs have not passed a sigmoid.",
        fix="loss_fn = nn.BCEWithLogitsLoss()",
        evidence={"share outside": share, "lowest": low, "highest": high},
        explains=_CONSEQUENCES,
        assumes=(OUTPUT_VALUES_UNCHANGED,),
    )


def _target_finding(setup: Setup, first_pass: ForwardPass, targets: list[Tensor], share: float) -> Finding:
    values = torch.cat([target.detach().float().flatten() for target in targets])
    low, high = float(values.min()), float(values.max())
    cause, fix = _cause_and_fix_of_targets(values)
    are_coded = _are_scaled(values) or set(values.unique().tolist()) == {-1.0, 1.0}  # type: ignore[no-untyped-call]
    line = origin_line(setup, "targets") if are_coded else None
    first_target, size = targets[0].detach().float(), first_pass.batch.size
    has_rows = bool(size) and first_target.numel() % size == 0
    row = int((first_target - 0.5).abs().reshape(size, -1).amax(1).argmax()) if has_rows else None
    return Finding(
        message=f"{share:.0%} of {values.numel():,} inspected targets of binary cross-entropy lie outside [0, 1]: they "
        f"range from {low:g} to {high:g}.",
        where=replace(get_location(line), sample=None if row is None else first_pass.batch.dataset_index(row)),
        cause=cause,
        fix=fix,
        evidence={"share outside": share, "lowest": low, "highest": high, "targets": values.numel()},
        explains=_CONSEQUENCES,
        assumes=(LOSS_TARGETS_MISMATCH,),
    )


def _endless_finding(setup: Setup, endless: EndlessTargets) -> Finding:
    names = join_names([f"{value:g}" for value in endless.values])
    losses, outputs = (join_names([f"{x:.3g}" for x in numbers]) for numbers in (endless.losses, endless.outputs))
    _, fix = _cause_and_fix_of_targets(endless.targets.float())
    return Finding(
        message=f"The loss has no minimum for targets of {names}, which are {endless.share:.0%} of the inspected "
        f"targets: for {endless.values[-1]:g} it is {losses} if all outputs are {outputs}. It has one for targets of "
        "0 and 1.",
        where=get_location(origin_line(setup, "loss")),
        cause="The loss is a likelihood of 0 and 1: for another target it falls without end as the output grows.",
        fix=fix,
        evidence={"share": endless.share, "outputs": endless.outputs, "losses": endless.losses},
        explains=_CONSEQUENCES,
        assumes=(LOSS_TARGETS_MISMATCH,),
    )


def _are_scaled(values: Tensor) -> bool:
    """Check whether targets have only the values 0 and a larger number, as masks of 0 and 255."""
    distinct = torch.unique(values)
    return len(distinct) == 2 and float(distinct[0]) == 0.0 and float(distinct[1]) > 1.0


def _cause_and_fix_of_targets(values: Tensor) -> tuple[str, str]:
    """Return what targets outside [0, 1] are: labels of -1 and 1, a mark of unknown labels, classes or real values."""
    distinct = set(torch.unique(values[torch.isfinite(values)])[:_MAX_CLASSES].tolist())
    if distinct == {-1.0, 1.0}:
        return "The labels are -1 and 1, not 0 and 1.", "target = (target + 1) / 2"
    if _are_scaled(values):
        scale = max(distinct)
        return f"The targets are 0 and {scale:g}, not 0 and 1.", f"target = target / {scale:g}"
    marks = distinct - {0.0, 1.0}
    if len(marks) == 1 and {0.0, 1.0} <= distinct and not 1 < max(marks) < _MIN_MARK:
        mark = marks.pop()
        return (
            f"The targets are 0, 1 and {mark:g}. The value {mark:g} seems to mark unknown labels, which the loss "
            "should leave out.",
            f"known = target != {mark:g}\nloss = loss_fn(output[known], target[known])",
        )
    if all(value >= 0 and value == round(value) for value in distinct):
        classes = int(max(distinct)) + 1
        fix = f"# {classes} outputs, one per class, and\nloss_fn = nn.CrossEntropyLoss()"
        return f"The targets are indices of {classes} classes, not binary labels.", fix
    return "The targets are real values, not binary labels.", "loss_fn = nn.MSELoss()"


def bad() -> Setup:
    """Class indices 0, 1 and 2 for one logit."""
    x, y = points()
    return minimal_setup(network(1), x, y.float().unsqueeze(1), nn.BCEWithLogitsLoss())


def good() -> Setup:
    """Soft labels for one logit."""
    x, y = points(2)
    return minimal_setup(network(1), x, (y.float() * 0.8 + 0.1).unsqueeze(1), nn.BCEWithLogitsLoss())
