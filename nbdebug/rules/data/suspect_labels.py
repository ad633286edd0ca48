"""D111: given labels that out-of-sample predictions confidently contradict."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding, Location
from nbdebug.measurements.reference import SplitLabels
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.statistics.label_errors import look_like_wrong_labels

_MAX_LISTED = 20


@rule("D111", "warning", origin="targets")
def suspect_labels(
    contradicted_labels: dict[str, SplitLabels], *, share: float = 0.02, ambiguous: float = 0.65
) -> Iterator[Finding]:
    """Given labels are confidently contradicted by predictions that did not see them.

    ## What it does
    Predicts the class of up to 2,000 samples of each split with a kernel ridge regression that has not seen the sample,
    and lists the samples with another class above that class's usual probability.

    ## Why it matters
    A network memorizes wrong labels late in training and loses on correct ones. A wrong label in the validation split
    hides a correct prediction.

    ## How it is measured
    By confident learning, with a threshold for each class. Samples between two classes are contradicted too, although
    their labels are right, so the contradicted samples must look like wrong labels: they are predicted as confidently
    as the samples of the predicted class that agree (a smaller margin is more probable by less than ``ambiguous`` =
    0.65), with a mean lead over the second class of 0.3 (0.5 of two classes); and the predictions hold no trace of the
    given class: its probability is not higher than for samples of the predicted class that agree (also 0.65). For two
    classes both conditions are the same, so the first bound is 0.6 for them, and the contradicted samples must be half
    of all errors of the predictions: a learner that is too weak for the task makes many errors without confidence. It
    requires ten samples and ``share`` = 2% of all, and predictions that avoid a third of the errors, balanced over the
    classes, of a constant prediction. On 16 data sets, of scikit-learn and synthetic, it reports none as they are. It
    reports 6 of 16 after a tenth of the labels was replaced at random, 7 after 15% or 30% of all labels were set to the
    first class, and 6 after a fifth of the second class was labeled as the first: those whose classes can be predicted
    well.

    ## How to fix
    Inspect the listed samples, the most confident contradiction first, and correct or remove them.

    ## When to ignore
    When the label is random given the input by the nature of the task, equally for all inputs.

    ## References
    C. Northcutt, L. Jiang, I. Chuang, Confident Learning: Estimating Uncertainty in Dataset Labels (2021).
    """
    for split, result in contradicted_labels.items():
        if look_like_wrong_labels(result.contradicted, result.labels, result.score, share, ambiguous):
            yield _finding(split, result)


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
        cause="Labels are wrong: they were entered, joined or generated incorrectly for part of the samples.",
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
