"""D111: given labels that out-of-sample predictions confidently contradict."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor.conclusions import validation_labels_wrong
from nbdebug.measurements.interpolated_masks import ClassTransitions
from nbdebug.measurements.interpolated_reads import InterpolatedReads
from nbdebug.measurements.reference import SplitLabels
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.source.location import get_location
from nbdebug.statistics.label_errors import look_like_wrong_labels

_MAX_LISTED = 20


@rule("D111", "warning", origin="targets")
def suspect_labels(
    setup: Setup,
    contradicted_labels: dict[str, SplitLabels] | NotChecked,
    class_transitions: list[ClassTransitions] | NotChecked,
    interpolated_reads: InterpolatedReads | NotChecked | None,
    *,
    share: float = 0.02,
    ambiguous: float = 0.65,
    least: int = 50,
    graded: float = 0.15,
    distant: float = 0.25,
    stairs: float = 0.2,
    interpolated: float = 0.002,
) -> Iterator[Finding]:
    """Given labels are confidently contradicted by predictions that did not see them.

    ## What it does
    Predicts the class of up to 2,000 samples of each split with a kernel ridge regression that has not seen the sample,
    and lists the samples with another class above that class's usual probability. In masks, it also looks for thin
    lines of other classes between two regions.

    ## Why it matters
    A network memorizes wrong labels late in training and loses on correct ones. A wrong label in the validation split
    hides a correct prediction. A mask that is resized with an interpolation has wrong classes along its borders: the
    numbers between two others.

    ## How it is measured
    By confident learning, with a threshold for each class. Samples between two classes are contradicted too, although
    their labels are right, so the contradicted samples must look like wrong labels: they are predicted as confidently
    as the samples of the predicted class that agree (a smaller margin is more probable by less than ``ambiguous`` =
    0.65), with a mean lead over the second class of 0.3 (0.5 of two classes); and the predictions hold no trace of the
    given class: its probability is not higher than for samples of the predicted class that agree (also 0.65). For two
    classes both conditions are the same, so the first bound is 0.6 for them, and the contradicted samples must be half
    of all errors of the predictions: a learner that is too weak for the task makes many errors without confidence. It
    requires ten samples and ``share`` = 2% of all, and predictions that avoid a third of the errors, balanced over the
    classes, of a constant prediction. Random trees must contradict the labels too: their
    agreement with the regression on contradicted samples is at least 0.8 times their accuracy on the agreeing samples
    of that class. The ratio was at least 0.92 for labels replaced in six data sets. It was at most 0.68 for waves of
    random phases, whose classes the regression partly confuses. A finding on validation labels is withdrawn if the
    network of a watched run predicts too many of them for that share of the labels to be wrong. This assumes that it
    has not seen these samples, and that the errors are independent. On 16 data sets, of scikit-learn and
    synthetic, it reports none as they are. It reports 6 of 16 after a tenth of the labels was replaced at random, 7
    after 15% or 30% of all labels were set to the first class, and 6 after a fifth of the second class was labeled as
    the first: those whose classes can be predicted well.

    A transition leads along a row or a column of a mask from one run of four or more pixels to the next. Masks were
    interpolated if there are ``least`` = 50 transitions between classes that differ by two or more, and ``graded`` =
    15% of these pass through runs of one or two pixels of the classes between both, in order: 0 to 1% do in masks that
    were not resized, or with the nearest neighbor, 29% if they shrink to two fifths, 41 to 97% at other sizes. A class
    counts as between only if a tenth of its pixels lie in squares of four by four, since a class of its own may mark
    borders. In a map of levels, such as bins of a depth, classes also occur in order: at least ``distant`` = a quarter
    of all transitions must skip a class, and at most ``stairs`` = a fifth of the regions of inner classes lie between
    the class below and the one above.

    If the dataset resizes, rotates or warps masks while a sample is read, by torch or ``scipy.ndimage``, the call is
    repeated for each class, with ones for its pixels and zeros for others. A pixel is wrong if its class has a
    weight of at most 0.02 there, and a lower and a higher class have more. Reported if at least ``least`` pixels and
    ``interpolated`` = 0.2% of the pixels of eight samples are wrong. Numbers are levels, not classes, if more than 30%
    of the pixels differ from their neighbor. So are four or more numbers if more than 75% of the changes are by one.

    ## How to fix
    Inspect the listed samples, the most confident contradiction first, and correct or remove them. Resize masks with
    the nearest pixel.

    ## When to ignore
    When the label is random given the input by the nature of the task, equally for all inputs.

    ## References
    C. Northcutt, L. Jiang, I. Chuang, Confident Learning: Estimating Uncertainty in Dataset Labels (2021).
    """
    if isinstance(interpolated_reads, InterpolatedReads) and _has_wrong_pixels(interpolated_reads, least, interpolated):
        yield _interpolated_read_finding(interpolated_reads)
        return
    for transitions in class_transitions if not isinstance(class_transitions, NotChecked) else ():
        is_frequent = transitions.distant >= least and transitions.graded >= graded * transitions.distant
        is_nominal = transitions.distant >= distant * (transitions.neighbors + transitions.distant)
        if is_frequent and is_nominal and transitions.stairs <= stairs * transitions.inner:
            yield _interpolation_finding(setup, transitions)
            return
    if isinstance(contradicted_labels, NotChecked):
        raise contradicted_labels
    for split, result in contradicted_labels.items():
        look_wrong = look_like_wrong_labels(result.contradicted, result.labels, result.score, share, ambiguous)
        if look_wrong and result.is_supported_by_trees:
            yield _finding(split, result)


def _has_wrong_pixels(reads: InterpolatedReads, min_pixels: int, min_share: float) -> bool:
    """Return whether many pixels of interpolated masks have a class that no pixel near them has."""
    return reads.wrong >= max(min_pixels, min_share * reads.pixels)


def _finding(split: str, result: SplitLabels) -> Finding:
    """Report the contradicted labels of a split."""
    rows, predicted = result.contradicted.rows, result.contradicted.predicted
    listed = [
        {"sample": result.indices[row], "label": int(result.labels[row]), "predicted": int(other)}
        for row, other in zip(rows[:_MAX_LISTED].tolist(), predicted[:_MAX_LISTED].tolist(), strict=True)
    ]
    first = ", ".join(str(item["sample"]) for item in listed[:5])
    return Finding(
        message=f"Of {len(result.labels):,} inspected {split} labels, {len(rows):,} "
        f"({len(rows) / len(result.labels):.1%}) are contradicted by out-of-fold predictions as confident as those "
        f"that agree with their labels: samples {first}{' and others' if len(rows) > 5 else ''}.",
        where=Location(sample=listed[0]["sample"]),
        cause="Either these labels were entered, joined or generated incorrectly, or the inputs of these samples do "
        "not show their class.",
        fix=f"suspects = {[item['sample'] for item in listed]}   # inspect these {split} samples first",
        evidence={
            "split": split,
            "contradicted": len(rows),
            "share": len(rows) / len(result.labels),
            "rows": len(result.labels),
            "accuracy of the predictions": result.score,
            "lead of the predicted class": result.contradicted.margin,
            "agreeing samples have a larger lead": result.contradicted.hardness,
            "trace of the given class": result.contradicted.trace,
            "samples": listed,
        },
        explains=("T606", "T608", "T610", "T611"),
        assumes=(validation_labels_wrong(int(100 * len(rows) / len(result.labels))),) if split == "val" else (),
    )


def _interpolated_read_finding(reads: InterpolatedReads) -> Finding:
    """Report an interpolating call that makes masks."""
    number, low, high = reads.between
    return Finding(
        where=get_location(reads.line),
        message=f"{reads.function}() interpolates class numbers: {reads.wrong:,} of {reads.pixels:,} inspected pixels "
        f"({reads.wrong / reads.pixels:.1%}) get a class that no pixel near them has, most often class {number} "
        f"between {low} and {high}.",
        cause="The mask is resized or moved like an image. A mean of two class numbers can be the number of another "
        "class.",
        fix='# for the mask only: mode="nearest" in PyTorch, order=0 in SciPy',
        evidence={
            "wrong pixels": reads.wrong,
            "pixels": reads.pixels,
            "masks": reads.masks,
            "class": number,
            "between": [low, high],
        },
        explains=("T611",),
    )


def _interpolation_finding(setup: Setup, transitions: ClassTransitions) -> Finding:
    """Report masks whose regions are separated by lines of the classes between theirs."""
    order = ", ".join(map(str, transitions.example))
    return Finding(
        where=get_location(origin_line(setup, "targets", transitions.split)),
        message=f"Thin lines of other classes separate the regions of the {transitions.split} masks. "
        f"{transitions.graded / transitions.distant:.0%} of {transitions.distant:,} transitions between classes that "
        f"differ by two or more pass in order through one or two pixels of the classes between them, most often "
        f"{order}. These classes also form regions elsewhere in the {transitions.masks} masks.",
        cause="The masks were resized or moved with an interpolation, and its values were rounded to class numbers.",
        fix='mask = F.interpolate(mask[:, None].float(), size, mode="nearest-exact")[:, 0].long()   # for masks only',
        evidence={
            "split": transitions.split,
            "masks": transitions.masks,
            "transitions": transitions.distant,
            "share through lines": transitions.graded / transitions.distant,
            "classes": transitions.example,
        },
        explains=("T611",),
    )


def _setup_with_wrong_labels(share: float) -> Setup:
    """Three separate classes; a share of the training labels is replaced by the next class."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (300,), generator=generator)
    x: Tensor = torch.randn(300, 4, generator=generator) + 6 * nn.functional.one_hot(y, 4)
    is_wrong = torch.rand(300, generator=generator) < share
    other = (y + torch.randint(1, 3, (300,), generator=generator)) % 3
    return Setup(
        network(3),
        DataLoader(TensorDataset(x, torch.where(is_wrong, other, y)), 16),
        loss_fn=nn.CrossEntropyLoss(),
    )


def bad() -> Setup:
    """A tenth of the labels is wrong."""
    return _setup_with_wrong_labels(0.1)


def good() -> Setup:
    """All labels are right."""
    return _setup_with_wrong_labels(0.0)
