"""D105: labels are no easier to predict from the inputs than shuffled labels."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.batch_alignment import Misalignment
from nbdebug.loop_monitor.conclusions import LABELS_UNPREDICTABLE, LABELS_UNRELATED
from nbdebug.loss_curves.convergence import MIN_STEPS, is_stuck_at_chance
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.measurements.axes import TransposedTarget
from nbdebug.measurements.collation import CollateMisalignment
from nbdebug.measurements.crossed_targets import CrossedTargets
from nbdebug.measurements.inverted_ranks import InvertedRanks
from nbdebug.measurements.label_alignment import LabelAlignment
from nbdebug.measurements.label_predictability import LabelPredictability, LabelProbe
from nbdebug.measurements.paired_transforms import UnpairedTransforms
from nbdebug.measurements.redrawn_targets import RedrawnTargetSearch
from nbdebug.measurements.reference import Reference, compare_with_reference
from nbdebug.measurements.separate_orders import SeparateOrders
from nbdebug.measurements.target_symmetries import MovedTarget
from nbdebug.measurements.text_order import TextOrder
from nbdebug.measurements.unexchanged_channels import UnexchangedChannels
from nbdebug.measurements.unmoved_targets import UnmovedTarget
from nbdebug.records import Record
from nbdebug.rule_engine.order_edits import find_reordering
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.drawn_targets import drawn_inputs_finding, redrawn_finding, separate_draws_finding
from nbdebug.rules.examples import network
from nbdebug.rules.separated_labels import collate_finding, crossed_finding, separate_sorts_finding, separation_finding
from nbdebug.rules.transformed_targets import moved_finding, unexchanged_finding, unmoved_finding, unpaired_finding
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line, target_start_line
from nbdebug.setup.losses import LossKind
from nbdebug.setup.reordered_lines import find_lone_reordering
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import get_location
from nbdebug.source.search import call_name, find_unique_line

_REGRESSION_LOSSES = ("squared", "absolute")
_CLASS_LOSSES = ("cross-entropy", "nll", "bce", "bce-with-logits")  # of others, integers may be actions or indices
_LISTING_CALLS = {"sorted", "sort", "listdir", "scandir", "glob", "iglob", "iterdir"}
_MIN_GAIN = 0.1  # over shuffled targets
_FIX = "# apply the same permutation to inputs and targets: x, y = x[order], y[order]"
_CONSEQUENCES = ("T601", "T606", "T607", "T608", "T609", "T610", "T614", "E707", "E709", "E706", "E702", "E703", "D111")


@rule("D105", "error", origin="target order")
def labels_unrelated(
    label_probe: LabelProbe | NotChecked,
    target_relations: dict[str, LabelPredictability] | NotChecked,
    loop: LoopSummary | NotChecked,
    collate_misalignments: list[CollateMisalignment],
    crossed_targets: CrossedTargets | NotChecked | None,
    unpaired_transforms: UnpairedTransforms | NotChecked | None,
    transposed_target: TransposedTarget | NotChecked | None,
    moved_target: MovedTarget | NotChecked | None,
    unmoved_target: UnmovedTarget | NotChecked | None,
    unexchanged_channels: UnexchangedChannels | NotChecked | None,
    separate_orders: SeparateOrders | NotChecked | None,
    text_order: TextOrder | NotChecked | None,
    inverted_ranks: InvertedRanks | NotChecked | None,
    setup: Setup,
    label_alignment: LabelAlignment | NotChecked,
    loss_kind: LossKind | NotChecked,
    redrawn_targets: RedrawnTargetSearch,
    record: Record | NotChecked,
    reference: Reference | NotChecked,
    *,
    related: float = 5.0,
    unrelated: float = 2.0,
    least: int = 3,
    lagging: float = 4.0,
    faint: float = 0.15,
    negligible: float = 0.02,
    opposite: float = 0.2,
) -> Iterator[Finding]:
    """Labels are no easier to predict from the inputs than shuffled labels.

    ## What it does
    Predicts the label of each of some hundred samples by a kernel ridge regression on the others, then repeats this
    with shuffled labels. If there is no relation in one split, it tests for one in the other split and for labels that
    belong to the previous or the next sample. Targets of -1 and 1 are two classes. A collate function of your own gets
    the same samples in several orders: the pairs of input and target may not depend on it, and the target of one sample
    may not replace those of all others. An image with a target of
    its height and width is read several times: both must be flipped, rotated and shifted alike. If an image is mirrored
    and its few real-valued targets stay the same, a linear learner of the validation images tells whether one of them
    is a position. If maps or points are mirrored with the image, two channels that are mirror images of each other must
    change places. A linear learner predicts the target at each position from the image around it, for the target in all
    eight orientations. The target of one sample is changed: it is a fault if only the gradient at the output of another
    sample changes. In your own loop, it compares the rows that the model receives and the targets that the loss
    receives with those of the loader.

    ## Why it matters
    A network memorizes random labels as well as correct ones; only the validation score shows the difference.

    ## How it is measured
    By the accuracy, in standard deviations of the accuracy over twenty-five shuffles. An error requires two
    measurements on the same task: ``related`` = 5 sigma where the labels match the inputs (the other split, or labels
    shifted by one), and less than ``unrelated`` = 2 where they do not, or a gain over shuffled labels that is below
    ``faint`` = 15% of that on the other split, with two standard deviations added. Up to four draws of other rows are
    averaged, and the accuracies of the splits must differ by 5 standard errors: some draws hide a faint relation. The
    error is withdrawn if a network that is trained on these labels predicts those of validation. If no relation is
    found anywhere, it is a note if the loss is one for classes or a distance from real values: this learner may be too
    simple for the task. The note becomes a warning if the predictions of the trained model are no better than shuffled
    ones (E709), nothing else explains this, and a stronger learner is no better (T610). Real-valued targets and
    multiple labels are judged by the explained variance and the accuracy on up to 2,000 samples, each left out once.
    Real-valued targets have no relation for the note if this gain over shuffled ones is below ``negligible`` = 0.02,
    since a kernel detects far smaller dependences on so many samples. If there is a class at each position, as in
    segmentation and tagging, the values around random positions are the inputs. The table shows measurements on samples
    of up to 300 rows of four scikit-learn datasets:

    | labels | | digits | breast cancer | wine | iris |
    |---|---|---|---|---|---|
    | in random order | above 2 sigma | 3.3% | 3.0% | 4.3% | 3.4% |
    | | largest of 1,000 | 4.4 | 3.2 | 4.7 | 3.7 |
    | unchanged | median sigma | 42 | 13 | 15 | 12 |
    | a quarter randomly relabeled | below 2 sigma | 0% | 0% | 0% | 0% |
    | half randomly relabeled | below 2 sigma | 0% | 0% | 2% | 0% |

    If the training labels have no relation to the inputs, labels of other rows are tried, at a distance that may grow
    from row to row: rows that were removed from the inputs alone leave such a lag. The path of the best distances is
    found in turns with the predictions of a kernel ridge regression. An error requires an explained variance of 0.6,
    ``lagging`` = 4 standard deviations above the scores of labels from other parts of the data. On 24 copies of the
    four datasets below, with 6% of the rows removed from inputs or labels, the explained variance was at least 0.70 and
    5.2 standard deviations above; with labels in random order at most 0.43 and 2.5. Stored inputs and labels of
    different lengths are a warning.

    Inputs and targets were sorted apart if the first target and a column of the inputs, which is not evenly spaced, are
    both in order in training, while ``opposite`` = 20% of pairs of validation samples in its range have them in
    opposite order. If rows were sorted as a whole, the column would order the targets of both splits.

    Inputs and labels are also paired as if one of them were in the text order of consecutive numbers, as listed files
    are. This is an error if a learner then scores at least 0.3 above a constant, and less in the order as they are. So
    are targets that are each rank once in each group of samples, of which the inverse permutations are predicted.

    If a target has the shape (steps, samples) and the output (samples, steps, classes), the gradient of a cross-entropy
    shows which class each output is compared with.

    A real-valued target is a position if the linear learner explains 30% of its variance on validation images that were
    left out, and its predictions for training images and their mirror images have a correlation below -0.7. Two
    channels are mirror images under three conditions. In 95% of the validation samples, they have the same order along
    the mirrored axis. A kernel ridge regression separates the images around each channel from other places with an
    accuracy of at least 0.8. It separates the mirrored images around the first channel from the images around the
    second one with an accuracy of at most 0.6.

    Real-valued targets are random numbers if they have nothing in common between two reads of the same samples. They
    are reported after a run whose loss stayed at that of a constant prediction, if a kernel ridge regression predicts
    them no better from the inputs that were read with them.

    In the first step of your loop, draws are followed through the torch calls. A target that comes from draws alone is
    unrelated to the inputs if none of them reaches the prediction, while another draw of its shape does.

    Inputs are random numbers if all tensors that the model receives in the first step come from draws alone, while the
    loss depends on the batch and validation passes receive the inputs of their batches. No training pass that is
    inspected may receive those of its batch.

    In your loop, exactly: the inputs are those of a batch in another order while the targets are in the loader's order,
    or the reverse, or the targets are those of another batch; in more than half of at least ``least`` = 3 inspected
    steps. Inputs that are sorted and whose outputs are put back in order do not count, and neither do mixed samples.

    ## How to fix
    Shuffle inputs and labels by one permutation; join them by key, not by position.

    ## When to ignore
    When one split is random on purpose, as a control.

    ## References
    C. Zhang and others, Understanding Deep Learning Requires Rethinking Generalization (2017); A. Ojala, G. Garriga,
    Permutation Tests for Studying Classifier Performance (2010).
    """
    if collate_misalignments:
        yield replace(collate_finding(collate_misalignments[0]), explains=(*_CONSEQUENCES, "D116", "D122"))
        return
    if isinstance(crossed_targets, CrossedTargets):
        yield replace(crossed_finding(crossed_targets), explains=_CONSEQUENCES)
        return
    if isinstance(transposed_target, TransposedTarget):
        yield _transposed_finding(setup, transposed_target)
        return
    if isinstance(unpaired_transforms, UnpairedTransforms):
        yield unpaired_finding(unpaired_transforms)
        return
    if isinstance(moved_target, MovedTarget):
        yield replace(moved_finding(setup, moved_target), explains=_CONSEQUENCES)
        return
    if isinstance(unmoved_target, UnmovedTarget):
        yield replace(unmoved_finding(unmoved_target), explains=_CONSEQUENCES)
        return
    if isinstance(unexchanged_channels, UnexchangedChannels):
        yield replace(unexchanged_finding(unexchanged_channels), explains=_CONSEQUENCES)
        return
    if isinstance(loop, LoopSummary):
        of_loop = [*_loop_findings(loop, least)]
        yield from of_loop
        if loop.batch_alignment.replaces_inputs_in_training and loop.batch_alignment.drawn_inputs:
            yield replace(drawn_inputs_finding(loop.batch_alignment.drawn_inputs), explains=_CONSEQUENCES)
        elif not of_loop and (draws := loop.batch_alignment.separate_draws):
            yield replace(separate_draws_finding(draws), explains=_CONSEQUENCES)
        elif not of_loop and _has_learned_nothing(record, reference) and (targets := redrawn_targets.targets):
            yield replace(redrawn_finding(targets), explains=_CONSEQUENCES)
        return
    if isinstance(separate_orders, SeparateOrders) and separate_orders.opposite >= opposite:
        yield replace(separate_sorts_finding(setup, separate_orders), explains=_CONSEQUENCES)
        return
    if isinstance(text_order, TextOrder):
        yield _text_order_finding(text_order, setup)
        return
    if isinstance(inverted_ranks, InvertedRanks):
        yield _inverted_ranks_finding(inverted_ranks)
        return
    if isinstance(label_probe, NotChecked):
        raise label_probe
    measured = (*label_probe.within.values(), *label_probe.shifted.values())
    is_related = any(standard.sigma >= related for standard in measured)
    if not label_probe.within or (label_probe.is_by_position and not is_related):
        if isinstance(target_relations, NotChecked):
            raise NotChecked("needs 100 readable training samples with one class each, of at least two classes")
        of_splits = [*_unrelated_target_findings(setup, target_relations, related, unrelated, faint)]
        yield from of_splits
        relation = target_relations.get("train")
        is_hidden = all(r.sigma < unrelated or r.gain < negligible for r in target_relations.values())
        if relation is not None and is_hidden and not of_splits and loss_kind in _REGRESSION_LOSSES:
            yield _finding(setup, "train", relation, "This learner may be too simple for the task", "note")
        return
    related_splits = {split: standard for split, standard in label_probe.within.items() if standard.sigma >= related}
    unrelated_splits = {
        split: relation
        for split, relation in label_probe.within.items()
        if relation.sigma < unrelated or any(relation.is_faint_beside(r, faint) for r in related_splits.values())
    }
    shifted = {offset: standard for offset, standard in label_probe.shifted.items() if standard.sigma >= related}
    for split, relation in unrelated_splits.items():
        if split == "train" and shifted:
            offset, standard = max(shifted.items(), key=lambda pair: pair[1].sigma)
            direction = "before" if offset < 0 else "after"
            yield _finding(
                setup,
                split,
                relation,
                f"If each sample gets the label of the sample {direction} it, the accuracy is {standard.accuracy:.0%}",
                None,
                standard,
            )
        elif split == "train" and isinstance(label_alignment, LabelAlignment) and label_alignment.has_cause(lagging):
            yield replace(separation_finding(setup, label_alignment, lagging), explains=_CONSEQUENCES)
        elif standard_splits := [
            name
            for name, standard in related_splits.items()
            if standard.rows <= relation.rows and relation.is_certainly_below(standard, related)
        ]:
            standard = related_splits[standard_splits[0]]
            finding = _finding(
                setup, split, relation, _describe_reference(standard_splits[0], standard), None, standard
            )
            is_certain = relation.is_detectable and split == "train"
            yield finding if is_certain else replace(finding, assumes=(LABELS_UNPREDICTABLE,))
        elif (
            split == "train"
            and not label_probe.is_by_position
            and loss_kind in (_CLASS_LOSSES + _REGRESSION_LOSSES if label_probe.has_signs else _CLASS_LOSSES)
        ):
            yield _finding(setup, split, relation, "This learner may be too simple for the task", "note")


def _has_learned_nothing(record: Record | NotChecked, reference: Reference | NotChecked) -> bool:
    """Return whether neither the network of a run nor the reference learner is better than a constant."""
    if isinstance(record, NotChecked) or isinstance(reference, NotChecked):
        return False
    summary = settled_run_summary(record)
    if summary.chance is None or summary.step_count < MIN_STEPS or not is_stuck_at_chance(summary):
        return False
    comparison = compare_with_reference(summary, reference)
    return comparison is not None and not comparison.is_informative


def _unrelated_target_findings(
    setup: Setup, relations: dict[str, LabelPredictability], related: float, unrelated: float, faint: float
) -> Iterator[Finding]:
    """Report a split whose real-valued targets or labels are unrelated to the inputs, unlike those of the other."""
    for split, relation in relations.items():
        for other, reference in relations.items():
            has_relation = reference.sigma >= related and reference.gain >= _MIN_GAIN
            is_unrelated = relation.sigma < unrelated or relation.is_faint_beside(reference, faint)
            if is_unrelated and has_relation and reference.rows <= 2 * relation.rows:
                finding = _finding(setup, split, relation, _describe_reference(other, reference), None, reference)
                yield finding if split == "train" else replace(finding, assumes=(LABELS_UNPREDICTABLE,))


def _describe_reference(split: str, reference: LabelPredictability) -> str:
    return (
        f"The same learner on the {split} split reaches {reference.accuracy:.0%}, and "
        f"{reference.chance_accuracy:.0%} with shuffled labels"
    )


def _finding(
    setup: Setup,
    split: str,
    relation: LabelPredictability,
    comparison: str,
    severity: Severity | None,
    reference: LabelPredictability | None = None,
) -> Finding:
    extent = "almost no" if relation.is_detectable else "no detectable"
    line, edits = find_reordering(setup)
    line = line or find_lone_reordering(setup, split) or (target_start_line(setup) if split == "train" else None)
    return Finding(
        message=f"The {split} labels have {extent} relation to the inputs: a simple learner on them reaches an "
        f"{relation.metric} of {relation.accuracy:.0%}, and {relation.chance_accuracy:.0%} ± {relation.chance_std:.0%} "
        f"with shuffled labels. {comparison}.",
        cause="Inputs and labels are in different orders, or were joined with an offset of one."
        if severity is None
        else "The labels are random or misaligned, or their relation to the inputs is too complex for this learner on "
        f"{relation.rows} samples.",
        where=get_location(line),
        fix=_FIX,
        edits=edits,
        evidence={
            "split": split,
            "right": relation.accuracy,
            "after shuffling": relation.chance_accuracy,
            "deviation after shuffling": relation.chance_std,
            "sigma": relation.sigma,
            "reference": (reference.accuracy, reference.chance_accuracy) if reference else None,
        },
        explains=_CONSEQUENCES,
        severity=severity,
        assumes=(LABELS_UNRELATED,) if severity else (),
    )


def _text_order_finding(order: TextOrder, setup: Setup) -> Finding:
    """Report inputs or labels that are sorted as texts while the others are sorted as numbers."""
    line = find_unique_line(_lists_names, user_written_objects(setup))
    other_part = "labels" if order.sorted_part == "inputs" else "inputs"
    return Finding(
        message=f"The {order.sorted_part} are in text order (1, 10, 11, 2), the {other_part} in that of their numbers: "
        f"the {order.metric} of a simple learner is {max(order.score, 0.0):.0%}, and {order.score_in_order:.0%} if the "
        f"{order.sorted_part} are put in the order of their numbers.",
        where=get_location(line),
        cause="Names with numbers were sorted as texts.",
        fix="names = sorted(names, key=lambda name: int(re.search(r'\\d+', name).group()))   # or pair by name",
        evidence={
            "part": order.sorted_part,
            "score": order.score,
            "in order": order.score_in_order,
            "rows": order.rows,
        },
        explains=_CONSEQUENCES,
    )


def _inverted_ranks_finding(ranks: InvertedRanks) -> Finding:
    """Report targets that list who has each rank."""
    return Finding(
        message=f"In each group of {ranks.group} samples, the targets list which sample has each rank: the "
        f"{ranks.metric} of a simple learner is {max(ranks.score, 0.0):.0%}, and {ranks.inverted_score:.0%} if each "
        "permutation is inverted.",
        where=get_location(ranks.line),
        cause="argsort returns which sample has each rank, not the rank of each sample.",
        fix="rank = times.argsort().argsort()   # the second one inverts the first",
        evidence={"group": ranks.group, "score": ranks.score, "inverted": ranks.inverted_score, "rows": ranks.rows},
        explains=_CONSEQUENCES,
    )


def _lists_names(node: ast.AST) -> bool:
    """Match calls that list or sort names, without a key."""
    has_key = isinstance(node, ast.Call) and any(keyword.arg == "key" for keyword in node.keywords)
    return call_name(node) in _LISTING_CALLS and not has_key


def _transposed_finding(setup: Setup, transposed: TransposedTarget) -> Finding:
    """Report targets whose first axis are the steps, beside outputs whose first axis are the samples."""
    return Finding(
        message=f"The loss compares outputs of shape {transposed.output_shape} with targets of shape "
        f"{transposed.target_shape} in the order in which they are stored: {transposed.different:,} of "
        f"{transposed.positions:,} outputs meet the target of another sample or step.",
        where=get_location(origin_line(setup, "padded targets")),
        cause="One of them has the samples first, and the other one the steps.",
        fix="y = pad_sequence(targets, batch_first=True)   # or y.T, so that both have the samples first",
        evidence={"different": transposed.different, "positions": transposed.positions},
        explains=(*_CONSEQUENCES, "L215"),
    )


_MISALIGNMENTS: dict[Misalignment, str] = {
    "inputs": "the model received the inputs of a batch in another order than the loss received its targets",
    "targets": "the loss received the targets of a batch in another order than the model received its inputs",
    "other batch": "the model received the inputs of a batch and the loss the targets of another one",
}


def _loop_findings(loop: LoopSummary, min_steps: int) -> Iterator[Finding]:
    """Report inputs and targets that the loop itself brings out of order."""
    alignment = loop.batch_alignment
    for kind, description in _MISALIGNMENTS.items():
        steps = alignment.misaligned_steps.get(kind, 0)
        if steps >= min_steps and steps > alignment.checked_steps / 2:
            is_input = kind == "inputs"
            line = loop.forward_passes.lines.get("forward") if is_input else alignment.loss_line
            yield Finding(
                message=f"In {steps} of {alignment.checked_steps} inspected steps, {description}: each sample "
                "is trained on the label of another one.",
                where=get_location(line or loop.lines.get("backward")),
                cause="The loop permutes or replaces one of the two.",
                fix="order = torch.randperm(len(x))\nx, y = x[order], y[order]   # or neither of them",
                evidence={"misaligned steps": steps, "inspected steps": alignment.checked_steps, "kind": kind},
                explains=_CONSEQUENCES,
            )


def _setup_with_permuted_labels(order: Tensor) -> Setup:
    """Three linearly separable classes; ``order`` permutes the training labels."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=generator)
    y = (x @ torch.randn(4, 3, generator=generator)).argmax(1)
    train, val = TensorDataset(x[:200], y[:200][order]), TensorDataset(x[200:], y[200:])
    return Setup(network(3), DataLoader(train, 16), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Training labels in another order than the inputs."""
    return _setup_with_permuted_labels(torch.randperm(200, generator=torch.Generator().manual_seed(1)))


def good() -> Setup:
    """Labels in the order of the inputs."""
    return _setup_with_permuted_labels(torch.arange(200))
