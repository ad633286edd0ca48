"""L214: some samples or outputs have no influence on the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd import Graph
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.batch_alignment import UnusedRows
from nbdebug.measurements.fixed_positions import FixedPositions
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.ignored_channels import IgnoredChannels
from nbdebug.measurements.ignored_classes import PredictableClass
from nbdebug.measurements.ignored_targets import IgnoredColumns, IgnoredTarget
from nbdebug.measurements.known_positions import KnownPositions
from nbdebug.measurements.loss_places import early_return_line, ignored_part, producing_line, selection_line
from nbdebug.measurements.loss_sensitivity import OutputInfluence
from nbdebug.measurements.mask_lines import excluding_mask_line
from nbdebug.measurements.overwritten_outputs import OverwrittenOutputs
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.unlearned_token import UnlearnedClass, UnlearnedToken
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.rules.overwritten_terms import overwritten_finding
from nbdebug.rules.row_numbers import fixed_positions_finding
from nbdebug.rules.unlearned_classes import (
    CONSEQUENCES,
    FIX_OF_INDEX,
    ignored_index_edits,
    predictable_class_findings,
    unlearned_class_finding,
    unlearned_token_finding,
)
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import known_origin_line, origin_line, written_line
from nbdebug.setup.source_lines import argument_line, argument_producer_line
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.window_lines import selects_last_step

_LAST_STEP_IS_CHOSEN = (
    "The loss takes the last step of the output and of the target. This is right if no other step should be predicted."
)


@rule("L214", "error")
def loss_ignores_samples(
    setup: Setup,
    first_pass: ForwardPass | NotChecked,
    graph: Graph | NotChecked,
    output_influence: OutputInfluence | NotChecked,
    ignored_target: IgnoredTarget | NotChecked | None,
    ignored_columns: IgnoredColumns | NotChecked | None,
    ignored_heads: IgnoredColumns | NotChecked | None,
    detached_columns: IgnoredColumns | NotChecked | None,
    ignored_channels: IgnoredChannels | NotChecked | None,
    parameters: list[ParameterEntry] | NotChecked,
    loss_calls: list[TorchCall] | NotChecked,
    known_positions: KnownPositions | NotChecked | None,
    unlearned_token: UnlearnedToken | NotChecked | None,
    unlearned_class: UnlearnedClass | NotChecked | None,
    predictable_class: PredictableClass | NotChecked | None,
    overwritten_outputs: OverwrittenOutputs | NotChecked | None,
    fixed_positions: FixedPositions | NotChecked | None,
    loop: LoopSummary | NotChecked,
    *,
    share: float = 0.5,
    least: int = 3,
) -> Iterator[Finding]:
    """Some samples or outputs of the batch have no influence on the loss.

    ## What it does
    Checks whether all targets are the label that the loss ignores. Changes the output of one sample, of one column and
    of one step of a sequence, and checks whether your loss changes.
    Does the same for all samples that have one value of the target, such as the label 0 in a loss that expects -1 and
    1. In your own loop, it tracks which rows of the output ever receive a gradient.

    ## Why it matters
    Typical causes are a loss that is overwritten in a loop, an index that was left in, or a mean over the wrong axis.
    Samples without influence are not learned from, and the batch is smaller than it seems.

    ## How it is measured
    On the output of the first batch, shifted by 1 and by 100 standard deviations in both directions, one part at a
    time, so that hinges and margins are crossed. Reported when more than ``share`` of the samples or steps (or any
    column that has targets of its own) have no influence. Samples whose targets are all negative, like
    ``ignore_index``, do not count, and neither do steps at which all samples have the same target, as in padding. A
    loss that takes the last step of the output and of the target by the same constant index is a note. The samples of
    one label are reported if none of them has a gradient, and if outputs that are small, large, opposite, random or
    equal do not change the loss, so that no margin hides them; in a loss that is not one of torch's own, as a warning.
    Of a class at each position, as in masks and tags, it is reported if it leaves a single class to learn. Of flags of
    0 and 1 for each output, it is reported unless the outputs of a sample are shares of a whole. The first step of a
    watched loop is checked too, if the loss repeats its value. So are columns of the output without a gradient in any
    of eight or more samples, if the target has a column for each, or if the loss also ignores a column of the target.
    So are channels of an output that several targets share, if one sample has a gradient at all others. Real-valued
    targets that come with a mask are reported if the loss has a gradient only where the mask is zero and all of them
    have one value. A token of a language model is reported, as a warning, if its label is ignored wherever it occurs
    although the mask marks it as real in half of the rows. So is a class of the output that the loss ignores, if it
    labels all padding and, in half of the rows, inputs before other labels, and the classes are not the tokens. The
    ``ignore_index`` of a loss is reported if it labels a tenth of the positions or more, if a kernel ridge regression
    on the values around them recognizes the class in other samples with a balanced accuracy of 0.85. Positions with
    equal inputs, as padding has, borders between objects, and tokens do not count. This is a note, since a background
    may be left out on purpose. In your loop: the same rows have a gradient of exactly zero in all inspected steps, at
    least ``least`` = 3 with different batches, and they are at least that ``share``. Batches that bring a mask do not
    count.

    Layers of one class, or those called at one line, may return a number beside their other outputs, such as a
    penalty. It is a warning if the loss has a constant gradient for that of the last layer and none for the others.

    If the loss selects rows of the output by integers, and some integer occurs more than once, the rule also computes
    the loss with the samples in other orders and with other random numbers. A finding means that the gradient stays in
    the same rows, less than half of them: an integer mask of 0 and 1 selects only rows 0 and 1. Rows that are selected
    by a boolean mask, or as negatives in the batch, move with the samples and are not reported.

    ## How to fix
    Let every sample enter the loss, as in ``loss_fn(output, target)`` on the whole batch.

    ## When to ignore
    When the loss selects samples on purpose, by a mask that comes with the batch.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: the mean is taken over all samples whose target is not ignored.
    """
    if isinstance(loop, LoopSummary):
        unused = loop.batch_alignment.unused_rows
        if unused.steps >= least and unused.rows >= share * unused.batch_size:
            yield _loop_finding(unused, loop.batch_alignment.loss_line or loop.lines.get("backward"))
        return
    if isinstance(overwritten_outputs, OverwrittenOutputs):
        yield overwritten_finding(overwritten_outputs)
    for call in loss_calls if isinstance(loss_calls, list) else ():
        if (label := _only_label_is_ignored(call)) is not None:
            yield _ignored_labels_finding(setup, call, label)
            return
    if isinstance(fixed_positions, FixedPositions):
        yield fixed_positions_finding(fixed_positions)
        return
    if isinstance(unlearned_token, UnlearnedToken):
        yield unlearned_token_finding(setup, unlearned_token)
        return
    if isinstance(unlearned_class, UnlearnedClass):
        yield unlearned_class_finding(setup, unlearned_class)
        return
    if isinstance(predictable_class, PredictableClass):
        yield from predictable_class_findings(setup, predictable_class)
    if isinstance(known_positions, KnownPositions) and known_positions.is_inverted:
        line = producing_line(graph)
        if isinstance(first_pass, ForwardPass):
            line = excluding_mask_line(setup, first_pass) or line
        yield _inverted_selection_finding(known_positions, get_location(line))
        return
    if isinstance(ignored_target, IgnoredTarget):
        finding = _without_ignored_index(setup, ignored_target, _target_finding(ignored_target))
        finding = _with_weight_of_zero(setup, ignored_target, finding)
        term_line = producing_line(graph)
        line = term_line if ignored_target.are_flags else None
        if ignored_target.expects_signs:
            line, term_line = origin_line(setup, "targets"), term_line or known_origin_line(setup, "loss")
            finding = replace(finding, related=get_related_lines((term_line, "the loss expects -1 and 1")))
        yield replace(finding, where=get_location(line)) if line else finding
        return
    if isinstance(first_pass, NotChecked):
        raise first_pass
    if isinstance(graph, NotChecked):
        raise graph
    if isinstance(ignored_channels, IgnoredChannels):
        yield _channel_finding(ignored_channels, producing_line(graph))
        return
    line = early_return_line(setup, first_pass)
    findings = (
        []
        if isinstance(output_influence, NotChecked)
        else list(_first_batch_findings(first_pass, graph, output_influence, share))
    )
    ignored = next((item for item in (ignored_columns, ignored_heads) if isinstance(item, IgnoredColumns)), None)
    if not findings and isinstance(detached_columns, IgnoredColumns):
        return  # the loss is computed from their values (L212)
    if not findings and ignored is not None:
        mask_line = line or excluding_mask_line(setup, first_pass, ignored.columns)
        yield _column_finding(ignored, mask_line or selection_line(first_pass, graph))
        return
    if isinstance(output_influence, NotChecked):
        raise output_influence
    for finding in findings:
        columns = [column for column, has_influence in output_influence.columns.items() if not has_influence]
        is_of_outputs = "outputs without influence" in finding.evidence
        entries = parameters if is_of_outputs and not isinstance(parameters, NotChecked) else []
        module = ignored_part(first_pass, columns, entries)
        located = line.where(module) if line else replace(finding.where, module=module)
        yield replace(finding, where=replace(located, sample=finding.where.sample))


def _only_label_is_ignored(call: TorchCall) -> int | None:
    """Return the label that a class loss ignores, if all targets have it; else None."""
    function = {"cross_entropy": F.cross_entropy, "nll_loss": F.nll_loss}.get(call.name)
    arguments = bind_arguments(function, call) if function else None
    if arguments is None or not isinstance(arguments["target"], Tensor) or arguments["target"].is_floating_point():
        return None
    label, targets = int(arguments["ignore_index"]), arguments["target"]
    return label if targets.numel() and bool((targets == label).all()) else None


def _ignored_labels_finding(setup: Setup, call: TorchCall, label: int) -> Finding:
    """Report targets that are all ignored."""
    return Finding(
        message=f"All targets of the first batch are {label}, the ignore_index of {call.name}, so no sample has an "
        "influence on the loss.",
        where=get_location(written_line(setup, "targets", None, [label]) or call.line),
        cause="The labels of all samples or positions are replaced by the index that the loss ignores.",
        fix=f"Set only the labels that should not be learned to {label}, such as those of padding or of a prompt.",
        evidence={"ignored label": label},
        explains=(*CONSEQUENCES, "D101", "D106", "T603", "T607", "M307"),
    )


def _inverted_selection_finding(positions: KnownPositions, where: Location) -> Finding:
    """Report a loss that learns only where the target is not known."""
    values, mask = positions.values, positions.mask
    value, negation = (1, "~") if positions.marks_unknown else (0, "")
    return Finding(
        message=f"The loss has a gradient only where {mask} is {value}, and all values of {values} are "
        f"{positions.filler:g} there.",
        where=where,
        cause=f"The selection by {mask} is inverted: the loss uses only the positions without a target.",
        fix=f"selected = {negation}target[{mask!r}].bool()",
        evidence={"share of unknown": positions.unknown_share, "filler": positions.filler},
        explains=CONSEQUENCES,
    )


def _first_batch_findings(
    first_pass: ForwardPass, graph: Graph, output_influence: OutputInfluence, share: float
) -> Iterator[Finding]:
    """Check which parts of the output of the first batch influence the loss."""
    target = first_pass.batch.target
    masked = {row for row in output_influence.samples if isinstance(target, Tensor) and _is_masked(target[row])}
    influences = {row: has_influence for row, has_influence in output_influence.samples.items() if row not in masked}
    ignored = [row for row, has_influence in influences.items() if not has_influence]
    if len(influences) > 2 and ignored and len(ignored) > share * len(influences) and len(ignored) < len(influences):
        yield _finding(
            first_pass,
            graph,
            f"{len(ignored)} of {len(influences)} inspected samples",
            "samples",
            first_pass.batch.dataset_index(ignored[0]),
        )
    ignored_columns = [column for column, has_influence in output_influence.columns.items() if not has_influence]
    has_column_targets = (
        isinstance(target, Tensor) and target.dim() == 2 and target.shape[1] == len(output_influence.columns)
    )
    if has_column_targets and ignored_columns and len(ignored_columns) < len(output_influence.columns):
        yield _finding(
            first_pass, graph, f"{len(ignored_columns)} of {len(output_influence.columns)} outputs", "outputs", None
        )
    steps = [step for step in output_influence.positions if not _is_constant_target(target, step)]
    ignored_steps = [step for step in steps if not output_influence.positions[step]]
    if share * len(steps) < len(ignored_steps) < len(steps):
        finding = _finding(first_pass, graph, f"{len(ignored_steps)} of {len(steps)} inspected steps", "steps", None)
        if ignored_steps == sorted(steps)[:-1] and selects_last_step(selection_line(first_pass, graph)):
            finding = replace(finding, cause=_LAST_STEP_IS_CHOSEN, severity="note")
        yield finding


def _target_finding(ignored: IgnoredTarget) -> Finding:
    """Report a label whose samples are not learned from."""
    others = ", ".join(f"{value:g}" for value in ignored.others)
    if ignored.is_dense:
        return _ignored_class_finding(ignored)
    if ignored.are_flags:
        return _ignored_flag_finding(ignored)
    return Finding(
        message=f"The {ignored.samples} of {ignored.batch_size} samples with target {ignored.value:g} have no "
        f"influence on the loss: it stays the same whatever the model returns for them. Only samples with target "
        f"{others} affect it.",
        cause="The loss expects the labels -1 and 1: with -1 in place of 0, all samples have an influence."
        if ignored.expects_signs
        else f"The loss has no term for {ignored.value:g}.",
        fix="target = 2 * target - 1   # 0 and 1 become -1 and 1"
        if ignored.expects_signs
        else f"# add a term to the loss for samples with target {ignored.value:g}",
        evidence={"target": ignored.value, "samples without influence": ignored.samples},
        explains=(*CONSEQUENCES, "D102", "E706", "G403", "G409", "G415", "L211", "L218", "M306", "M307", "T607"),
        severity=None if ignored.is_torch_loss else "warning",
    )


def _without_ignored_index(setup: Setup, ignored: IgnoredTarget, finding: Finding) -> Finding:
    """Return the finding with the removal of the ``ignore_index`` that is the label of these samples."""
    if getattr(setup.loss_fn, "ignore_index", ignored.value) != ignored.value:
        return finding
    line, edits = ignored_index_edits(setup, ignored.value)
    is_option = hasattr(setup.loss_fn, "ignore_index")
    if not edits and not is_option:
        return finding
    line = line or argument_line(setup, setup.loss_fn, "ignore_index")
    return replace(
        finding,
        where=replace(line.where(), sample=finding.where.sample) if line else finding.where,
        cause=f"The ignore_index of the loss is {ignored.value:g}, which is one of the classes.",
        fix=FIX_OF_INDEX,
        setup_fix="loss_fn.ignore_index = -100" if is_option else "",
        edits=edits,
    )


def _with_weight_of_zero(setup: Setup, ignored: IgnoredTarget, finding: Finding) -> Finding:
    """Return the finding with the class weight that is zero, at the line that makes the weights."""
    weight, label = getattr(setup.loss_fn, "weight", None), int(ignored.value)
    if not isinstance(weight, Tensor) or not 0 <= label < len(weight) or bool(weight[label]):
        return finding
    line = argument_producer_line(setup, setup.loss_fn, "weight", lambda choice: _may_round_to_zero(choice.node))
    return replace(
        finding,
        where=replace(line.where(), sample=finding.where.sample) if line else finding.where,
        cause=f"The class weight of {label} is 0 in the loss: {[round(float(value), 4) for value in weight[:10]]}.",
        fix="weight = counts.sum() / (len(counts) * counts)   # by true division, of the counts of all classes",
    )


def _may_round_to_zero(value: ast.expr) -> bool:
    """Check whether an expression divides whole numbers."""
    return any(isinstance(node, ast.FloorDiv) for node in ast.walk(value))


def _ignored_class_finding(ignored: IgnoredTarget) -> Finding:
    """Report a class that the loss ignores at every position, so that a single class remains."""
    return Finding(
        message=f"The {ignored.samples:,} of {ignored.batch_size:,} positions with class {ignored.value:g} have no "
        f"influence on the loss. Class {ignored.others[0]:g} is the only other one; expected two classes or more.",
        cause="The ignore_index of the loss is one of the classes. The model learns to predict the other class "
        "everywhere.",
        fix=FIX_OF_INDEX,
        evidence={"class": ignored.value, "positions without influence": ignored.samples},
        explains=(*CONSEQUENCES, "D106", "E706", "L218", "M306", "M307", "T607"),
    )


def _ignored_flag_finding(ignored: IgnoredTarget) -> Finding:
    """Report flags of one value that the loss ignores, so that the other value everywhere has the lowest loss."""
    value, other = f"{ignored.value:g}", f"{ignored.others[0]:g}"
    return Finding(
        message=f"The {ignored.samples:,} of {ignored.batch_size:,} targets that are {value} have no influence on the "
        f"loss: it stays the same whatever the model returns for them. Only those that are {other} do.",
        cause=f"The loss has no term for {value}, so the model learns to predict {other} everywhere.",
        fix="loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()   # a term for either value",
        evidence={"target": ignored.value, "targets without influence": ignored.samples},
        explains=(*CONSEQUENCES, "D106", "E706", "L211", "L218", "M306", "M307", "T607"),
    )


def _column_finding(ignored: IgnoredColumns, line: SourceLine | None) -> Finding:
    """Report columns of the output that have targets and are not learned."""
    return Finding(
        message=f"{len(ignored.columns)} of {ignored.count} columns of the output have no influence on the loss: their "
        f"gradient is exactly zero for all {ignored.rows} samples, and the loss ignores targets.",
        where=get_location(line),
        cause="The loss is computed from only a part of the outputs, such as the first step of a loop over them.",
        fix="total = total + loss_fn(output[:, k], target[:, k])   # for each k; return after the loop",
        evidence={"columns without influence": list(ignored.columns[:16]), "columns": ignored.count},
        explains=CONSEQUENCES,
    )


def _channel_finding(ignored: IgnoredChannels, line: SourceLine | None) -> Finding:
    """Report channels of the output of a task that is not learned."""
    return Finding(
        message=f"{len(ignored.channels)} of {ignored.count} channels of the output have no influence on the loss: "
        f"their gradient is exactly zero for all {ignored.rows} samples. The batch has {ignored.targets} targets.",
        where=get_location(ignored.line or line),
        cause="The loss of their task is multiplied by zero, is detached or is left out, or it reads other channels.",
        fix="loss = first_loss + second_loss   # a term for each task, on the channels of its own",
        evidence={"channels without influence": list(ignored.channels[:16]), "channels": ignored.count},
        explains=CONSEQUENCES,
    )


def _is_constant_target(target: Any, step: int) -> bool:
    """Return whether all samples have the same target at one step of a sequence, as in padding."""
    return isinstance(target, Tensor) and bool((target[:, step] == target[:1, step]).all())


def _is_masked(target: Tensor) -> bool:
    return not target.is_floating_point() and bool((target < 0).all())


def _finding(first_pass: ForwardPass, graph: Graph, count: str, part: str, sample: int | None) -> Finding:
    line = selection_line(first_pass, graph) or producing_line(graph)
    return Finding(
        message=f"{count} of the first batch have no influence on the loss: changing their output does not change it.",
        where=replace(get_location(line), sample=sample),
        cause=f"The loss is computed from only a part of the {part}.",
        fix="loss = loss_fn(output, target)  # on the whole batch, not on output[0] or on the last step of a loop",
        evidence={f"{part} without influence": count},
        explains=CONSEQUENCES,
    )


def _loop_finding(unused: UnusedRows, line: SourceLine | None) -> Finding:
    """Report rows of the output without gradient in a loop."""
    return Finding(
        message=f"{unused.rows} of {unused.batch_size} rows of the output have no influence on the loss of your loop: "
        f"the same rows had a gradient of exactly zero in all {unused.steps} inspected steps.",
        where=get_location(line),
        cause="The loss is computed from only a part of the samples.",
        fix="loss = loss_fn(output, target)  # on the whole batch, not on a slice of it",
        evidence={"rows without gradient": unused.rows, "batch size": unused.batch_size, "steps": unused.steps},
        explains=CONSEQUENCES,
    )


def _cross_entropy_of_first(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output[:1], target[:1])


def bad() -> Setup:
    """A loss of only the first sample of each batch."""
    return classifier(loss_fn=_cross_entropy_of_first)


def good() -> Setup:
    """A loss of all samples."""
    return classifier()
