"""D101: a class index outside the range of the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph, Node
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import LABELS_OUT_OF_RANGE, TARGET_VALUES_UNCHANGED
from nbdebug.measurements.dataset_rows import SplitRows, samples_title
from nbdebug.measurements.forward_pass import ForwardPass, get_extra_axes
from nbdebug.measurements.non_finite import find_ignored_labels, find_wrapped_labels
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup, losses
from nbdebug.setup.data_lines import origin_line, written_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.setup.wrong_value_lines import label_sequence_line, wrong_label_line
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import find_unique_line, matches_option

_DEFAULT_BLANK = 0  # of torch
_MORE_CLASSES = "# give the output one class for each symbol, and one more for the blank"


@rule("D101", "error", origin="targets")
def label_out_of_range(
    setup: Setup,
    first_pass: ForwardPass,
    graph: Graph | NotChecked,
    output: Any,
    class_axis: int | NotChecked,
    rows: list[SplitRows],
) -> Iterator[Finding]:
    """A class index is negative or not less than the number of outputs.

    ## What it does
    Compares the class indices of every sample that can be read with the number of outputs. The ignore index of the
    loss (-100 by default) is allowed, and so is a label that a custom loss masks. The labels of a CTC loss must not
    contain the index of its blank either.

    ## Why it matters
    Cross-entropy raises an index error on the batch that contains the sample. On a GPU, a device-side assertion ends
    the process and names neither the sample nor the label.

    ## How it is measured
    Exactly, by the indices. A custom loss is evaluated with such a label in the first batch: if it raises, or treats
    -1 as the last class as Python's indexing does, it does not mask the label. A custom loss that indexes the scores
    directly is only tested with negative labels. A CTC loss is checked on the first batch, up to the target lengths;
    blanks that only end the rows are padding that the lengths count. Columns whose number follows the batch size are no
    classes. A finding before training is withdrawn if the watched loop has passed an epoch: it uses other labels or
    another output.

    ## How to fix
    Number the classes from 0, and give the head one output for each class.

    ## When to ignore
    Never: the loss is undefined there.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: class indices in the range [0, C); documentation of torch.nn.CTCLoss:
    the target index cannot be blank.
    """
    nodes = list(graph.get_nodes_by_name("CtcLoss")) if isinstance(graph, Graph) else []
    if nodes:
        for node in nodes:
            yield from _ctc_findings(setup, node, first_pass.batch.indices or ())
        return
    if isinstance(class_axis, NotChecked):
        yield from _wrapped_label_findings(setup, first_pass, output, class_axis, rows)
        return
    scores = losses.score_tensor(output)
    classes, ignored = scores.shape[class_axis], _ignored_label(setup, first_pass)
    by_split: dict[str, list[_PartLabels]] = {}
    for part in rows:
        labels = part.targets[0] if part.targets and isinstance(part.targets[0], Tensor) else None
        if labels is None or labels.is_floating_point() or not labels.dim():
            continue
        wrong = ((labels < 0) | (labels >= classes)) & (labels != ignored)
        for label in find_ignored_labels(setup, first_pass.batch, output, sorted(set(labels[wrong].tolist())), classes):
            wrong &= labels != label
        by_split.setdefault(part.split, []).append(_PartLabels(labels, wrong, part.indices, part.is_complete))
    train_values = _wrong_values(by_split.get("train", []))
    for split, parts in by_split.items():
        if values := _wrong_values(parts):
            finding = _finding(setup, split, parts, classes)
            other_axis = next((a for a in get_extra_axes(scores, first_pass.batch.target) if a != class_axis), None)
            if other_axis is not None and 0 <= min(values) <= max(values) < scores.shape[other_axis]:
                finding = _blame_axis(finding, class_axis, other_axis)
            # The loss raises for such a label: a loop that ran on all training samples uses other labels.
            is_raised = losses.get_loss_kind(setup.loss_fn) != "other" or min(values) >= 0
            is_refuted_by_epoch = is_raised and values <= train_values
            assumption = LABELS_OUT_OF_RANGE if is_refuted_by_epoch else TARGET_VALUES_UNCHANGED
            yield replace(finding, assumes=(assumption,))


def _ctc_findings(setup: Setup, node: Node, indices: Sequence[int]) -> Iterator[Finding]:
    """Report labels of a CTC loss that are its blank, or that no output stands for."""
    targets, blank = node.get_saved("targets"), node.get_saved("blank")
    lengths, scores = node.get_saved("target_lengths"), node.get_saved("log_probs")
    if not isinstance(targets, Tensor) or not isinstance(scores, Tensor) or lengths is None:
        return
    classes, labels = scores.shape[-1], targets.cpu()
    sizes = torch.as_tensor(lengths).cpu()
    if labels.dim() > 1:
        labels = labels[torch.arange(labels.shape[1]) < sizes[:, None]]
    wrong = labels[(labels == blank) | (labels < 0) | (labels >= classes)]
    if not len(wrong):
        return
    values, is_blank = sorted(set(wrong.tolist())), bool((wrong == blank).all())
    is_padding = is_blank and targets.dim() > 1 and _is_trailing(targets.cpu(), torch.as_tensor(lengths).cpu(), blank)
    is_chosen = is_blank and blank != _DEFAULT_BLANK  # the default says nothing of how the labels are numbered
    line = find_unique_line(matches_option("blank", blank), user_written_objects(setup)) if is_chosen else None
    is_option = line is not None
    if is_blank and not is_padding and not is_option:
        line = _blank_label_line(setup, torch.split(labels, sizes.tolist()), indices, blank)
    rule_text, cause, fix = (
        f"the output has {classes} classes",
        "The output has no class for these labels.",
        _MORE_CLASSES,
    )
    if is_padding:
        rule_text = f"{blank} is the blank of the CTC loss. It stands only at the ends of the rows"
        cause = "The lengths of the targets count the padding."
        fix = f"target_lengths = (targets != {blank}).sum(1)  # without padding"
    elif is_blank:
        rule_text = f"{blank} is the blank of the CTC loss"
        cause = "The blank stands for no symbol, so a target must not contain it."
        unused = set(range(classes)) - set(labels.tolist())
        fix = (
            "Number the labels without the blank, and give the output one class for each of them and one for the blank."
        )
        if unused and is_option:
            fix = f"nn.CTCLoss(blank={max(unused)})  # an output that no label uses"
        elif unused:
            fix = f"Add 1 to each label from {blank} on, or pass blank={max(unused)} to the loss, which no label uses."
    yield Finding(
        message=f"{len(wrong)} of the {len(labels)} labels of the first batch are {', '.join(map(str, values[:5]))}: "
        f"{rule_text}.",
        where=get_location(line) if line and not is_padding else node.where,
        cause=cause,
        fix=fix,
        evidence={"split": "train", "labels": values[:20], "classes": classes, "blank": blank},
        explains=("D105", "E702", "E709", "L207", "L208", "L218", "T606", "T607", "T608", "T610"),
    )


def _blank_label_line(
    setup: Setup, sequences: Sequence[Tensor], indices: Sequence[int], blank: int
) -> SourceLine | None:
    """Return the line that makes the labels of the first training sample whose labels contain the blank."""
    if len(indices) == len(sequences):
        for index, sequence in zip(indices, sequences, strict=True):
            if blank in sequence.tolist():
                line = label_sequence_line(setup, index, sequence.tolist())
                return line or origin_line(setup, "target order")
    return origin_line(setup, "target order")


def _is_trailing(targets: Tensor, lengths: Tensor, blank: int) -> bool:
    """Return whether a label follows no blank in its row of targets, up to the length that is given for the row."""
    is_label = (targets != blank) & (torch.arange(targets.shape[1]) < lengths[:, None])
    return bool((is_label.cummin(1).values == is_label).all())


def _blame_axis(finding: Finding, class_axis: int, other_axis: int) -> Finding:
    """Return the finding for an output that holds its classes on another axis than the loss expects."""
    return replace(
        finding,
        cause=f"The loss takes axis {class_axis} of the output as the classes, but by the shape of the labels they are "
        f"on axis {other_axis}.",
        fix=f"loss = loss_fn(output.movedim({other_axis}, {class_axis}), labels)",
    )


def _wrong_values(parts: Sequence[_PartLabels]) -> set[int]:
    """Return the labels out of range of some parts."""
    return {int(value) for part in parts for value in part.labels[part.wrong].tolist()}


@dataclass(frozen=True)
class _PartLabels:
    """Labels of some samples of a split, which of them are wrong, the indices of the samples, and if these are all."""

    labels: Tensor
    wrong: Tensor
    indices: Sequence[int]
    is_complete: bool

    @property
    def wrong_samples(self) -> list[int]:
        """The indices of the samples with a wrong label."""
        is_wrong = self.wrong.flatten(1).any(1) if self.wrong.dim() > 1 else self.wrong
        return [int(self.indices[row]) for row in is_wrong.nonzero().flatten().tolist() if row < len(self.indices)]


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
            wrong = torch.isin(labels, torch.tensor(sorted(wrapped)).to(labels))
            yield _finding(setup, part.split, [_PartLabels(labels, wrong, part.indices, part.is_complete)], classes)


def _ignored_label(setup: Setup, first_pass: ForwardPass) -> int:
    """Return the ignore index of the loss: from its operation in the graph if possible, else from the loss object."""
    nll_nodes = (
        first_pass.trace.get_graph(first_pass.loss).get_nodes_by_name("NllLoss", "NllLoss2D")
        if first_pass.loss is not None
        else ()
    )
    number = next((node.get_saved("ignore_index") for node in nll_nodes), None)
    return number if isinstance(number, int) else losses.ignore_index(setup.loss_fn)


def _finding(setup: Setup, split: str, parts: list[_PartLabels], classes: int) -> Finding:
    """Report the wrong labels of all parts of a split at once."""
    samples = sorted(index for part in parts for index in part.wrong_samples)
    values = sorted({value for part in parts for value in part.labels[part.wrong].tolist()})
    max_label, min_label = max(int(part.labels.max()) for part in parts), min(int(part.labels.min()) for part in parts)
    line = written_line(setup, "targets", split, values)
    traced = next((sample for sample in samples if sample not in values), None)
    if line is None and traced is not None:
        line = wrong_label_line(setup, split, traced, values)
    count, title = (
        sum(len(part.labels) for part in parts),
        samples_title(split, all(part.is_complete for part in parts)),
    )
    from_one = max_label == classes and min_label == 1
    return Finding(
        message=f"Labels outside 0…{classes - 1} occur in {len(samples)} of {count} {title}: "
        f"{', '.join(map(str, values[:5]))}. The output has {classes} classes.",
        where=replace(get_location(line), sample=samples[0] if samples else None),
        cause="Labels start at 1." if from_one else "The head has fewer outputs than there are classes.",
        fix="labels = labels - 1" if from_one else f"# give the head {max_label + 1} outputs, or renumber the labels",
        evidence={"split": split, "labels": values[:20], "classes": classes, "samples": samples[:20], "rows": count},
        explains=("L207", "D119", "L208", "X1012"),
    )


def bad() -> Setup:
    """Labels start at 1."""
    x, y = points()
    return minimal_setup(network(3), x, y + 1, nn.CrossEntropyLoss())


def good() -> Setup:
    """Labels start at 0."""
    return classifier()
