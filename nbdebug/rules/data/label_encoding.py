"""D102: targets do not have the form that the loss expects."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import LOSS_OPERANDS_MISMATCH, LOSS_RAISES
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.heads import HeadSetup
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.rules.target_domains import target_domain_findings
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import known_origin_line, origin_line
from nbdebug.setup.losses import LossKind, get_loss_kind, score_tensor
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import replace_around
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.search import (
    assigned_names,
    assignment_targets,
    call_name,
    enclosing_scope,
    find_unique_line,
    read_names,
    scales_labels,
    walk,
)
from nbdebug.tensors.pytree import describe_tensors, tree_tensors

_TargetMismatch = tuple[str, str]
_STRICT_LOSSES: tuple[LossKind, ...] = (
    "cross-entropy",
    "nll",
    "bce",
    "bce-with-logits",
)  # torch raises for such targets


@rule("D102", "error", origin="targets")
def label_encoding(
    setup: Setup,
    first_pass: ForwardPass | NotChecked,
    output: Any | NotChecked,
    loss_kind: LossKind | NotChecked,
    tables: dict[str, SplitTable] | NotChecked,
    loop: LoopSummary | NotChecked,
    record: Record | NotChecked,
    loss_calls: list[TorchCall] | NotChecked,
    *,
    share: float = 0.02,
    least: int = 5,
    min_samples: int = 32,
) -> Iterator[Finding]:
    """Targets do not have the shape, dtype or encoding that the loss expects.

    ## What it does
    Compares shape and dtype of the target with the definition of the loss: class indices (int64, without a class axis)
    or probabilities (floats, with a class axis) for cross-entropy; floats of the shape of the output for binary
    cross-entropy; as many targets as outputs for every loss. Checks the targets of torch's losses whose definition
    names their values: -1 and 1 for the margin losses on pairs and signs, class indices for the multi-label margin,
    counts for the Poisson likelihood, probabilities for the KL divergence. Reports training targets that are all equal
    while those of the validation split are not, a loop that learns the same binary label or the same number for all
    samples, and one that passes real-valued targets to the loss without their fractions.

    ## Why it matters
    Some of these raise an error about dtypes that does not mention labels; others broadcast and train on meaningless
    values. A pair labeled 0 has no influence on a loss that expects -1 and 1, or pulls its samples together although
    they differ; columns of 0 and 1 are read as the indices of the classes 0 and 1. If all targets are equal, the loss
    falls to its minimum and the model learns to ignore its inputs.

    ## How it is measured
    On the target and the output of the first batch, before torch's own error is shown. Values that a loss does not take
    are reported when more than ``share`` of the targets have them, also in the first step of your own loop. Equal
    targets are detected over all training samples, if there are ``min_samples`` = 32 of them and all can be read; in
    your loop, over all of them or 5,000, if one optimizer trains and the loss receives the targets of the loader. Lost
    fractions are detected exactly: in ``least`` = 5 of the inspected steps or more, and in more than half of them, the
    loss receives the truncated values of the loader's targets.

    ## How to fix
    Apply the suggested line where the targets are created.

    ## When to ignore
    Never, for torch's own losses. A custom loss is checked only if one of torch's losses raised inside it.

    ## References
    Documentation of torch.nn.CrossEntropyLoss, BCEWithLogitsLoss and MSELoss, section on shapes;
    CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss, SoftMarginLoss, MultiLabelMarginLoss, PoissonNLLLoss and
    KLDivLoss.
    """
    if isinstance(loop, LoopSummary):
        yield from _truncated_target_findings(loop, least)
        has_one_output = len(tree_tensors(output)) < 2  # of several, some may learn the opposite of the target
        is_whole = not isinstance(setup, HeadSetup)
        if isinstance(record, Record) and not isinstance(loss_kind, NotChecked) and has_one_output and is_whole:
            value = record.about.get("constant_target")
            if value is not None and not _is_learned_by_inputs(score_tensor(output), value, loss_kind):
                yield from _constant_loop_targets(setup, loop, value, loss_kind, least)
        return
    if not isinstance(loss_calls, NotChecked):
        yield from target_domain_findings(setup, loss_calls, share)
    if isinstance(first_pass, NotChecked):
        raise first_pass
    if isinstance(loss_kind, NotChecked):
        raise loss_kind
    if isinstance(tables, NotChecked):
        raise tables
    target = next(iter(tree_tensors(first_pass.batch.targets)), None)
    logits = score_tensor(output)
    yield from _constant_target_findings(setup, tables, min_samples)
    is_custom_without_failure = get_loss_kind(setup.loss_fn) == "other" and first_pass.failure is None
    if target is None or not isinstance(logits, Tensor) or loss_kind == "other" or is_custom_without_failure:
        return
    mismatch = _length_mismatch(logits, target) or _TARGET_CHECKS[loss_kind](logits, target)
    if mismatch:
        message, repair = mismatch
        yield Finding(
            message=f"{message} (output {describe_tensors(logits)}, target {describe_tensors(target)}).",
            where=get_location(first_pass.line),
            related=get_related_lines(
                (known_origin_line(setup, "targets"), "the targets are made here"),
                (None if first_pass.line else known_origin_line(setup, "loss"), "the loss is created here"),
            ),
            cause=f"The loss expects {_EXPECTED_TARGETS[loss_kind]}.",
            fix=repair,
            evidence={
                "output": describe_tensors(logits),
                "target": describe_tensors(target),
                "raised": str(first_pass.failure or ""),
            },
            explains=(
                "X1012",
                "X1016",
                "X1017",
                "L205",
                "L207",
                "L208",
                "L211",
                "L214",
                "D101",
                "T601",
                "T607",
                "T608",
                "E706",
            ),
            assumes=(LOSS_RAISES if first_pass.failure or loss_kind in _STRICT_LOSSES else LOSS_OPERANDS_MISMATCH,),
        )


def _truncated_target_findings(loop: LoopSummary, min_steps: int) -> Iterator[Finding]:
    """Report real-valued targets that the loop casts to integers."""
    alignment = loop.batch_alignment
    steps = alignment.misaligned_steps.get("truncated", 0)
    if steps >= min_steps and steps > alignment.checked_steps / 2:
        yield Finding(
            message=f"In {steps} of {alignment.checked_steps} inspected steps, the loss received the targets of the "
            "loader without their fractions.",
            where=get_location(alignment.loss_line or loop.lines.get("backward")),
            cause="The loop casts real-valued targets to integers, such as with long() or int().",
            fix="loss = loss_fn(output, target.float())   # without long() or int()",
            evidence={"truncated steps": steps, "inspected steps": alignment.checked_steps},
            explains=("L208", "T601", "T607", "T608", "T610", "E706", "E709"),
        )


def _constant_target_findings(setup: Setup, tables: dict[str, SplitTable], min_samples: int) -> Iterator[Finding]:
    """Report a training split whose targets are all equal while those of the validation split are not."""
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or not train.is_complete or len(train) < min_samples:
        return
    if not _are_equal(train) or _are_equal(val) or len(val.targets) != 1:
        return
    values = val.targets[0].flatten().unique()  # type: ignore[no-untyped-call]
    noun = "labels" if train.labels is not None else "targets"
    yield _constant_target_finding(
        setup,
        f"All {len(train):,} training {noun} are {_describe_value(train.targets[0][0])}, while those of the validation "
        f"split have {len(values)} values, from {float(values[0]):g} to {float(values[-1]):g}.",
        {"samples": len(train), "validation values": len(values)},
    )


def _constant_loop_targets(
    setup: Setup, loop: LoopSummary, value: float, kind: LossKind, min_steps: int
) -> Iterator[Finding]:
    """Report a loop whose only optimizer always learns the same target, from the loader.

    The zeros that a residual should be are meant, and so is the index of a positive that always stands first.
    """
    alignment = loop.batch_alignment
    if kind not in _CONSTANT_LOSSES or not loop.has_one_optimizer:
        return
    if not value and kind in ("squared", "absolute"):
        return
    if alignment.foreign_target_steps or loop.alternates_losses or alignment.checked_steps < min_steps:
        return
    yield _constant_target_finding(setup, f"The target of every training sample is {value:g}.", {"target": value})


def _is_learned_by_inputs(output: Any, value: float, kind: LossKind, share: float = 0.02) -> bool:
    """Check whether a model that learned to answer one label answers the other one for more than ``share`` of a batch.

    A margin between a liked and another item cannot be the same for all: its sign changes if the two are exchanged.
    """
    if kind not in ("bce", "bce-with-logits") or value not in (0, 1) or not isinstance(output, Tensor):
        return False
    scores = output.detach().float()
    logits = scores if kind == "bce-with-logits" else scores.logit(eps=1e-6)
    margin = logits if value else -logits
    has_learned = bool(nn.functional.softplus(-margin).mean() < math.log(2) / 2)
    return has_learned and bool((margin < 0).float().mean() > share)


_CONSTANT_MAKERS = ("ones", "zeros", "full", "ones_like", "zeros_like", "full_like")
_CONSTANT_LOSSES: tuple[LossKind, ...] = ("bce", "bce-with-logits", "squared", "absolute")


def _constant_target_finding(setup: Setup, message: str, evidence: dict[str, Any]) -> Finding:
    """Return the finding with the line that scales the labels, or else the line that makes the targets."""
    line = find_unique_line(scales_labels, user_written_objects(setup))
    cause = (
        "The expression that makes the targets returns one value for all samples, such as a comparison that never "
        "holds or a cast that removes all differences."
    )
    fix = "Print the values from which the targets are made, and their dtype, before and after each conversion."
    made_line = origin_line(setup, "targets")
    if made_line is not None and _makes_constant(made_line):
        cause = "The targets are created as a constant here, and no line of the function fills them."
        fix = "Read the targets from the data, or add samples with other targets, such as random negatives."
    if line is not None:
        cause = "The labels were scaled with the inputs and cast to integers, or the split contains only one class."
        fix = "x = x / 255   # scale only the inputs, not the labels"
    return Finding(
        message=message,
        where=get_location(line or made_line),
        cause=cause,
        fix=fix,
        edits=_without_scaling(line),
        evidence=evidence,
        explains=(
            *("D105", "D106", "D110", "D111", "D119", "L207", "L208", "G402", "G411", "G415", "G416", "M307"),
            *("T606", "T607", "T608", "T609", "E702", "E706", "E709"),
        ),
    )


def _makes_constant(line: SourceLine) -> bool:
    """Check whether a line makes a tensor or an array of one constant, which no other line of its function fills."""
    statement, scope = covering_statement(line), enclosing_scope(line)
    names = assigned_names(statement) if statement else set()
    targets = (target for node in walk(scope) for target in assignment_targets(node))
    is_filled = any(isinstance(target, ast.Subscript) and read_names(target.value) & names for target in targets)
    return not is_filled and any(call_name(node) in _CONSTANT_MAKERS for node in walk(statement))


def _are_equal(table: SplitTable) -> bool:
    """Check whether the only target has the same value for every sample."""
    target = table.targets[0] if len(table.targets) == 1 else None
    return target is not None and len(target) > 0 and bool((target == target[:1]).all())


def _describe_value(target: Tensor) -> str:
    """Return the value of a target."""
    values = target.flatten().unique().tolist()  # type: ignore[no-untyped-call]
    return f"{values[0]:g}" if len(values) == 1 else f"the same {target.numel():,} values"


def _without_scaling(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits of a line that scales labels: ``labels / 255`` becomes ``labels``."""
    statement = covering_statement(line) if line else None
    nodes = ast.walk(statement) if statement else ()
    scaled = [node for node in nodes if isinstance(node, ast.BinOp) and scales_labels(node)]
    return tuple(edit for node in scaled if line for edit in replace_around(line.file, node, node.left, "", ""))


def _length_mismatch(logits: Tensor, target: Tensor) -> _TargetMismatch | None:
    if logits.dim() and target.dim() and len(logits) != len(target):
        return (
            f"The model returns {len(logits)} outputs for {len(target)} targets",
            "# return one target for each input from the dataset, and keep the batch axis first in the model",
        )
    return None


def _class_target_mismatch(logits: Tensor, target: Tensor) -> _TargetMismatch | None:
    same = target.dim() == logits.dim()
    if target.is_floating_point():
        if same and target.shape == logits.shape:
            return None
        return "Class labels are floats, but they should be integer indices", "target = target.long()" + (
            ".squeeze(1)" if same else ""
        )
    if same and target.shape == logits.shape and logits.dim() > 1:
        return "Class labels are one-hot integers, but they should be class indices", "target = target.argmax(dim=1)"
    if same and logits.dim() > 1:
        return "Class labels have one axis too many", "target = target.squeeze(1)"
    if target.dtype not in (torch.int64, torch.uint8):
        return f"Class labels are {str(target.dtype).removeprefix('torch.')}", "target = target.long()"
    return None


def _probability_target_mismatch(logits: Tensor, target: Tensor) -> _TargetMismatch | None:
    repair = "target = target" if target.is_floating_point() else "target = target.float()"
    if target.shape != logits.shape:
        column = logits.dim() == target.dim() + 1 and logits.shape[-1] == 1
        match = ".unsqueeze(1)" if column else f".view({tuple(logits.shape)})"
        return "Binary targets do not have the shape of the output", repair + match
    if not target.is_floating_point():
        return "Binary targets are integers", repair
    return None


def _regression_target_mismatch(logits: Tensor, target: Tensor) -> _TargetMismatch | None:
    if not target.is_floating_point() and logits.is_floating_point():
        return "Regression targets are integers", "target = target.float()"
    return None


_TARGET_CHECKS: dict[LossKind, Callable[[Tensor, Tensor], _TargetMismatch | None]] = {
    "cross-entropy": _class_target_mismatch,
    "nll": _class_target_mismatch,
    "bce": _probability_target_mismatch,
    "bce-with-logits": _probability_target_mismatch,
    "squared": _regression_target_mismatch,
    "absolute": _regression_target_mismatch,
}

_EXPECTED_TARGETS: dict[LossKind, str] = {
    "cross-entropy": "one whole class index for each prediction, or one probability for each class",
    "nll": "one whole class index for each prediction",
    "bce": "one floating-point value from 0 to 1 for each output",
    "bce-with-logits": "one floating-point value from 0 to 1 for each output",
    "squared": "one floating-point value for each output",
    "absolute": "one floating-point value for each output",
}


def bad() -> Setup:
    """Class labels are floats."""
    x, y = points()
    return minimal_setup(network(3), x, y.float(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Class labels are integers."""
    return classifier()
