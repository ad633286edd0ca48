"""D106: rare classes that neither the sampler nor the loss compensates for."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from math import sqrt

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, RelatedLine
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.label_weights import LabelWeights
from nbdebug.measurements.labels import ClassCounts
from nbdebug.measurements.loss_sensitivity import ClassWeights
from nbdebug.rule_engine.predictions import MISSED_CLASS
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from nbdebug.setup.losses import get_loss_kind
from nbdebug.setup.source_lines import creation_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.setup.weight_lines import rising_weights_line, weight_order_line
from nbdebug.source.location import SourceLine, get_related_lines
from nbdebug.source.search import find_unique_line
from nbdebug.statistics.class_weights import MisplacedWeights, find_misplaced_weights
from nbdebug.statistics.label_weights import InvertedLabelWeights, find_inverted_label_weights

_WEIGHTED_LOSSES = ("cross-entropy", "nll", "bce-with-logits")


def _weight_line(setup: Setup, finding: Finding) -> SourceLine | None:
    """Return the line that makes the weights which a finding is about, or that creates the loss."""
    evidence, line = finding.evidence, None
    if "weight of a positive" in evidence or "weight of common over rare" in evidence:
        line = rising_weights_line(setup)
    elif "weight ratio" in evidence:
        line = find_unique_line(_has_class_weight, user_written_objects(setup))
    elif "common over rare" not in evidence:
        line = weight_order_line(setup)
    return line or creation_line(setup, setup.loss_fn)


@rule("D106", "warning", origin="targets", prediction=MISSED_CLASS, find_line=_weight_line)
def class_imbalance(
    setup: Setup,
    tables: dict[str, SplitTable],
    class_counts: ClassCounts | NotChecked,
    class_weights: ClassWeights | NotChecked,
    label_weights: LabelWeights | NotChecked,
    *,
    share: float = 0.1,
    rarer: float = 0.5,
    dense_share: float = 0.01,
    excess: float = 20.0,
) -> Iterator[Finding]:
    """The rarest class is less than a tenth as frequent as the most common one, and nothing compensates for it.

    ## What it does
    Counts the classes of the training samples in the order in which the loader draws them, so that a weighted sampler
    is taken into account. Checks whether your loss gives rare classes a larger weight.

    ## Why it matters
    A model that never predicts the rare class is correct almost always. Its accuracy looks excellent, while it misses
    the class that usually matters.

    ## How it is measured
    The count of the rarest class, plus three standard errors, must be below ``share`` = a tenth of the count of the
    most common class. The loss compensates if its gradients for two classes, taken at an uninformative output, differ
    by half or more (class weights, ``pos_weight``), or if its gradient at an almost correct output is less than half of
    the gradient of cross-entropy (focal loss). Weights that favor the most common class over the rarest do not
    compensate: in that case the counts are multiplied by those gradients, and the rule applies as soon as the rarest
    class is less than ``rarer`` = half as frequent. Weights that are inverse class counts, or their roots, in another
    order than the classes are reported at any frequencies: their products with the counts are equal in some order, up
    to the noise of the counts, but differ by more than half in their own. Of two classes, one is also reported if both
    its weight and the product of its weight and its count are more than ``excess`` = 20 times those of the other: the
    weights then do not balance the classes, but make the other one negligible. With more than ten classes, frequencies
    are often long-tailed by nature: by Zipf's law, the most common of K words is K times as frequent as the rarest. Up
    to that ratio the finding is a note. For masks and tags the positions are counted. There a background is usual: the
    finding is a note unless there are two classes, one of them with less than ``dense_share`` = 1/100 of the positions
    of the other. If a sample may have several labels at once, only the weights of the labels are checked, and rare
    labels alone are not reported. The weight of a label is the gradient of a positive divided by that of a negative. A
    finding means that the weights equal positives / negatives of each label, or the square root of it, within the noise
    of the counts. The weights may be clipped or have a common factor.

    ## How to fix
    Weight the classes in the loss or sample them evenly, and evaluate the model by a score for each class.

    ## When to ignore
    When the data have the class frequencies of deployment, and you use the probabilities rather than a threshold.

    ## References
    M. Buda, A. Maki, M. Mazurowski, A systematic study of the class imbalance problem (2018), arXiv:1710.05381.
    """
    if "train" not in tables:
        raise NotChecked("the training samples cannot be read by index")
    if isinstance(label_weights, LabelWeights):
        inverted = find_inverted_label_weights(label_weights.positives, label_weights.negatives, label_weights.weights)
        if inverted is not None:
            yield _inverted_label_weights_finding(setup, label_weights, inverted)
            return
    if isinstance(class_counts, NotChecked):
        if isinstance(label_weights, LabelWeights):
            return
        raise class_counts
    if isinstance(class_weights, NotChecked):
        raise class_weights
    counts = class_counts.sampled
    if len(counts) < 2:
        return
    if misplaced := find_misplaced_weights(counts, class_weights.gradient_norms):
        yield _misplaced_weights_finding(setup, class_counts, class_weights.gradient_norms, misplaced)
        return
    if excessive := _find_excessive_weight(counts, class_weights, excess):
        yield _excessive_weight_finding(setup, class_counts, class_weights.gradient_norms, *excessive)
        return
    (common, common_count), (rare, rare_count) = counts.most_common(1)[0], min(counts.items(), key=lambda pair: pair[1])
    rare_upper_bound = rare_count + 3 * sqrt(rare_count)
    weights_inverted = class_weights.favors(common, rare) and rare_upper_bound < rarer * common_count
    weight_ratio = (
        class_weights.gradient_norms[common] / class_weights.gradient_norms[rare] if weights_inverted else 1.0
    )
    if rare_upper_bound >= share * common_count * weight_ratio or not (class_weights.are_equal or weights_inverted):
        return
    if weights_inverted:
        yield _inverted_weights_finding(setup, class_counts, rare, common, weight_ratio)
        return
    has_background = class_counts.is_dense and (len(counts) > 2 or rare_upper_bound >= dense_share * common_count)
    yield Finding(
        severity="note" if len(counts) * rare_upper_bound > common_count or has_background else None,
        message=f"Class {rare} has {rare_count:,} of {counts.total():,} training {_unit(class_counts)}, "
        f"class {common} has {common_count:,} ({common_count / rare_count:.0f} times as many; expected less than "
        f"{1 / share:.0f} times). "
        "Neither the sampler nor the loss compensates for it.",
        cause=_equal_weights_cause(setup, class_counts),
        fix=_class_weight_fix(setup, class_counts),
        setup_fix="class weights",
        evidence={
            "counts": dict(sorted(counts.items())[:50]),
            "samples": counts.total(),
            "common over rare": common_count / rare_count,
            "expected less than": 1 / share,
            "gradient of each class": class_weights.gradient_norms,
        },
        explains=("E702", "E703", "E706", "E709", "T607", "T601"),
    )


def _loss_lines(setup: Setup) -> tuple[RelatedLine, ...]:
    """Return the line that passes weights to the loss, beside the one that makes them."""
    return get_related_lines((creation_line(setup, setup.loss_fn), "the loss is created here"))


def _unit(class_counts: ClassCounts) -> str:
    unit = "positions" if class_counts.is_dense else "samples"
    return unit if "train" in class_counts.complete_splits else f"{unit} that were read"


def _inverted_weights_finding(
    setup: Setup, class_counts: ClassCounts, rare: int, common: int, weight_ratio: float
) -> Finding:
    counts = class_counts.sampled
    return Finding(
        message=f"Class {rare} has {counts[rare]:,} of {counts.total():,} training {_unit(class_counts)}, "
        f"class {common} has {counts[common]:,}, and the loss weights a sample of class {common} "
        f"{weight_ratio:.3g} times as much as one of class {rare}; expected a larger weight for class {rare}.",
        related=_loss_lines(setup),
        cause="The class weights are inverted: they are proportional to the class frequencies, not to their inverse.",
        fix=_class_weight_fix(setup, class_counts),
        setup_fix="class weights",
        evidence={
            "counts": dict(sorted(counts.items())[:50]),
            "samples": counts.total(),
            "weight of common over rare": weight_ratio,
        },
        explains=("E702", "E703", "E706", "E709", "L208", "T607", "T601"),
    )


def _misplaced_weights_finding(
    setup: Setup, class_counts: ClassCounts, weights: dict[int, float], misplaced: MisplacedWeights
) -> Finding:
    """Report weights of the loss that are inverse counts of other classes."""
    counts, heavy, light = class_counts.sampled, misplaced.heavy, misplaced.light
    is_of_positives = get_loss_kind(setup.loss_fn) == "bce-with-logits"
    order = "" if is_of_positives else " The weights are inverse class counts, but of other classes."
    return Finding(
        message=f"The loss weights a sample of class {heavy} {misplaced.ratio:.3g} times as much as one of class "
        f"{light}. Class {heavy} has {counts[heavy]:,} of {counts.total():,} training {_unit(class_counts)}, class "
        f"{light} has {counts[light]:,}; expected {misplaced.expected:.3g} times.{order}",
        related=_loss_lines(setup),
        cause="The pos_weight is positives / negatives. It multiplies the loss of positives: it should be the inverse."
        if is_of_positives
        else "The class weights are in another order than the classes, such as that in which the labels first occur.",
        fix=_class_weight_fix(setup, class_counts),
        setup_fix="class weights",
        evidence={
            "counts": dict(sorted(counts.items())[:50]),
            "samples": counts.total(),
            "gradient of each class": weights,
        },
        explains=("E702", "E703", "E706", "E709", "L208", "T607", "T601"),
    )


def _find_excessive_weight(
    counts: Mapping[int, int], class_weights: ClassWeights, excess: float
) -> tuple[int, int] | None:
    """Return the class with almost all of the gradient because of its weight, and the other one of two classes."""
    weights, at_half = class_weights.gradient_norms, class_weights.norms_at_half or class_weights.gradient_norms
    if len(counts) != 2 or set(counts) != set(weights) or min(counts.values()) < 1 or min(weights.values()) <= 0:
        return None
    heavy, light = sorted(weights, key=lambda c: -weights[c])
    ratio, is_heavy_at_half = weights[heavy] / weights[light], at_half[heavy] > excess * at_half[light]
    is_heavy = is_heavy_at_half and min(ratio, ratio * counts[heavy] / counts[light]) > excess
    return (heavy, light) if is_heavy else None


def _excessive_weight_finding(
    setup: Setup, class_counts: ClassCounts, weights: Mapping[int, float], heavy: int, light: int
) -> Finding:
    """Report a weight of one of two classes that makes the other one negligible."""
    counts, ratio = class_counts.sampled, weights[heavy] / weights[light]
    gradients = ratio * counts[heavy] / counts[light]
    share = gradients / (1 + gradients)
    return Finding(
        message=f"The loss weights a sample of class {heavy} {ratio:.3g} times as much as one of class {light}. Class "
        f"{heavy} has {counts[heavy]:,} of {counts.total():,} training {_unit(class_counts)}. Its share of the "
        f"gradient at undecided predictions is {share:.1%}; weights that balance the classes give 50%.",
        cause=f"The weight of class {heavy} is far larger than its frequency requires, so errors on the other class "
        "hardly change the loss. If a sampler already balances the classes, no weights are needed.",
        fix=_class_weight_fix(setup, class_counts),
        setup_fix="class weights",
        evidence={
            "counts": dict(sorted(counts.items())),
            "samples": counts.total(),
            "weight ratio": ratio,
            "share of the gradient": share,
        },
        explains=("E702", "E703", "E706", "E709", "L208", "T601", "T607", "T610", "T614"),
    )


def _has_class_weight(node: ast.AST) -> bool:
    """Match a call with weights of classes."""
    return isinstance(node, ast.Call) and any(word.arg in ("weight", "pos_weight") for word in node.keywords)


def _inverted_label_weights_finding(setup: Setup, labels: LabelWeights, inverted: InvertedLabelWeights) -> Finding:
    """Report weights of the positives of several labels that are smallest for the rarest labels."""
    k, samples = inverted.label, labels.positives[inverted.label] + labels.negatives[inverted.label]
    ratio = "positives / negatives" if inverted.power == 1 else "the root of positives / negatives"
    return Finding(
        message=f"Label {k} is positive in {labels.positives[k]:,} of {samples:,} training samples, and the loss "
        f"weights a positive {inverted.weight:.3g} times as much as a negative; expected {inverted.expected:.3g} "
        f"times. The weights of all {len(labels.weights)} labels follow {ratio}.",
        cause=f"The loss weights positives by {ratio} of their label, up to a common factor. The rarest labels get the "
        "smallest weights; they should get the largest.",
        fix="pos_weight = (len(labels) - labels.sum(0)) / labels.sum(0)   # negatives / positives of each label",
        evidence={
            "positives": list(labels.positives[:50]),
            "samples": samples,
            "weight of a positive": [round(weight, 4) for weight in labels.weights[:50]],
        },
        explains=("E702", "E703", "E706", "E709", "L208", "T607", "T601"),
    )


def _equal_weights_cause(setup: Setup, class_counts: ClassCounts) -> str:
    """Return why the common class dominates; a weight of binary cross-entropy is one of samples, not of classes."""
    loss_fn = setup.loss_fn
    if isinstance(loss_fn, (nn.BCELoss, nn.BCEWithLogitsLoss)) and loss_fn.weight is not None:
        return "The `weight` of this loss multiplies both classes alike, so the common class dominates the training."
    return f"All {_unit(class_counts)} have the same weight, so the common class dominates the training."


def _class_weight_fix(setup: Setup, class_counts: ClassCounts) -> str:
    """Return the code that weights the classes in a loss of the present kind; a sentence for a loss of another kind."""
    kind = get_loss_kind(setup.loss_fn)
    if kind not in _WEIGHTED_LOSSES:
        return (
            "Weight the samples in the loss by 1 / count of their class: pass weight to a cross-entropy over classes, "
            "and pos_weight to a binary one of logits."
        )
    if kind == "bce-with-logits" and class_counts.classes == [0, 1]:
        ratio = class_counts.sampled[0] / max(class_counts.sampled[1], 1)
        return f"loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([{ratio:.1f}]))   # of logits"
    return (
        "weight = 1 / torch.bincount(labels).float()   # labels: those of the training samples\n"
        "loss_fn = nn.CrossEntropyLoss(weight=weight / weight.mean())"
    )


def _imbalanced_setup(loss_fn: nn.Module) -> Setup:
    """400 points, 16 of them in the second class."""
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    y: Tensor = (torch.arange(400) % 25 == 0).long()
    return minimal_setup(network(2), x + 2 * y[:, None], y, loss_fn)


def bad() -> Setup:
    """Plain cross-entropy, with one positive sample in 25."""
    return _imbalanced_setup(nn.CrossEntropyLoss())


def good() -> Setup:
    """The same data with class weights."""
    return _imbalanced_setup(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 24.0])))
