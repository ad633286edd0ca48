"""D108: the same samples in training and validation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.loop_monitor import LoopSummary
from nbdebug.measurements.dataset_rows import samples_title
from nbdebug.measurements.duplicates import NearDuplicates, SharedSamples, SharedWindows, count_shared_samples
from nbdebug.measurements.shared_stores import SharedStore
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import repetition_line
from nbdebug.setup.split_lines import locate_ungrouped_split, splitting_line
from nbdebug.source.location import SourceLine, get_location

_MAX_EXPECTED_SHARE = 0.25  # of samples that are near copies by chance
_HOLDERS = {
    "default": "It is the default of the parameter {name} of {owner}(), which Python creates once for all calls.",
    "class": "It is the class attribute {owner}.{name}, which all objects of the class share.",
    "variable": "It is the variable {name}, which both of them use.",
}
_MIN_EXCESS = 0.02  # over the share of random splits: less is not worth a warning


@rule("D108", "error", origin="validation")
def split_overlap(
    setup: Setup,
    shared_samples: SharedSamples | NotChecked,
    near_duplicates: NearDuplicates | NotChecked,
    shared_windows: SharedWindows | NotChecked,
    shared_store: SharedStore | NotChecked | None,
    loop: LoopSummary | NotChecked,
    *,
    share: float = 0.05,
    near: float = 0.1,
    times: float = 4.0,
    overlapping: float = 0.5,
) -> Iterator[Finding]:
    """The same sample occurs in training and validation.

    ## What it does
    Compares the indices that both loaders visit if they read from one dataset; otherwise compares every readable sample
    of both splits, inputs and targets, bit by bit. If no samples are identical, it searches for validation samples that
    are slightly modified training samples, or the same window of a series shifted by a few steps. In a watched loop,
    compares the samples of each evaluation with those that the same weights were trained on in earlier folds.

    ## Why it matters
    The validation score rewards memorization as if it were generalization.

    ## How it is measured
    Exactly. It is an error from ``share`` = 5% of the validation samples, the threshold of deepchecks, and a
    warning below. Data with few distinct values repeat by chance: there the share is compared with that of at least
    39 random divisions of all samples into two splits with the same classes. If the share exceeds all of theirs,
    its excess over their mean counts; otherwise it is a note. A near copy is closer than 0.35 of the distance to
    the twentieth neighbor and has the same class, and one gap makes up half of the growth of the logarithm of the
    distance up to that neighbor; along a densely sampled curve, the distances grow with each neighbor. Where fewer
    than eighty training samples have the same values in all columns of two values, it must be closer than 0.35 of
    the distance to the second neighbor. Near copies are a warning from ``near`` = 10% of the samples, and from
    ``times`` = 4 times the share that is expected for evenly distributed samples of the same intrinsic dimension,
    estimated from the more distant neighbors (or that share plus three tenths of all samples). Where more than a
    quarter are expected, as for rows of three columns, near copies are not distinctive. Windows count if they share
    three quarters of their steps, from ``overlapping`` = half of the validation samples.

    If both datasets hold one dictionary or list, a few of the samples are read again on the emptied container. If the
    validation samples are others then, the container is the cause.

    In your loop, exactly: samples of an evaluation are matched with those of an earlier training set by index in the
    same dataset, or bit by bit in a TensorDataset. Weights that were replaced in between, as before a new fold, start
    again.

    ## How to fix
    Drop the copies before the split, and split a random permutation of the data.

    ## When to ignore
    When validation intentionally uses training samples, for example to test whether a model can memorize.

    ## References
    deepchecks, train-test samples mix; B. Barz, J. Denzler, Do We Train on Test Data? (2020).
    """
    if isinstance(loop, LoopSummary):
        yield from _fold_findings(loop, share)
        return
    if setup.val_loader is None:
        raise NotChecked("there is no validation loader")
    if isinstance(shared_samples, NotChecked):
        raise shared_samples
    if isinstance(near_duplicates, NotChecked):
        raise near_duplicates
    if isinstance(shared_windows, NotChecked):
        raise shared_windows
    line = splitting_line(setup)
    if pairs := shared_samples.pairs:
        shared_part = len(pairs) / shared_samples.val_size
        copying_line = repetition_line(setup) if shared_samples.matched_by == "content" else None
        severity = _severity(shared_samples, shared_part, share)
        finding = _finding(shared_samples, shared_part, severity, copying_line or line)
        yield _of_store(finding, shared_store) if isinstance(shared_store, SharedStore) else finding
        return
    if len(shared_windows.pairs) > overlapping * max(shared_windows.val_size, 1):
        yield _window_overlap_finding(shared_windows, line)
    elif near_duplicates.share > max(near, _min_near_copy_share(near_duplicates.expected_share, times)):
        yield _near_copy_finding(near_duplicates, repetition_line(setup), line)


def _fold_findings(loop: LoopSummary, min_share: float) -> Iterator[Finding]:
    """Report the first evaluation of samples that the same weights were trained on in an earlier fold."""
    for evaluation in loop.fold_evaluations:
        shared, size = count_shared_samples(evaluation.source, evaluation.earlier)
        if shared < max(min_share * size, 1):
            continue
        yield Finding(
            message=f"{shared} of {size} samples of an evaluation had been used to train the same weights before, in "
            f"{len(evaluation.earlier)} earlier {'fold' if len(evaluation.earlier) == 1 else 'folds'}.",
            where=get_location(evaluation.line),
            cause="The model is not created again for each fold, so a fold is scored on samples that the model has "
            "memorized.",
            fix="Create the model and the optimizer inside the loop over the folds, before the first epoch of each.",
            evidence={"share": shared / size, "samples": size, "earlier training sets": len(evaluation.earlier)},
            explains=("T611",),
        )
        return


def _min_near_copy_share(expected: float, times: float) -> float:
    """Return the share of near copies that cannot be chance; infinite where many samples are as close by chance."""
    return min(times * expected, expected + 0.3) if expected <= _MAX_EXPECTED_SHARE else math.inf


def _severity(shared: SharedSamples, part: float, share: float) -> Severity:
    if not shared.are_distinctive and not _is_above_chance(shared, part):
        return "note"
    return "error" if part - shared.chance_share >= share else "warning"


def _is_above_chance(shared: SharedSamples, part: float) -> bool:
    """Check whether validation samples occur in training more often than in any random division of the samples."""
    return part > shared.highest_chance_share and part - shared.chance_share >= _MIN_EXCESS


def _finding(shared: SharedSamples, part: float, severity: Severity, line: SourceLine | None) -> Finding:
    listed = ", ".join(f"{val_index} = train {train_index}" for train_index, val_index in shared.pairs[:3])
    comparison = "by index in the same dataset" if shared.matched_by == "index" else "bit by bit, including targets"
    chance = "" if shared.are_distinctive else f" In random splits of these data, {shared.chance_share:.1%} would."
    return Finding(
        message=f"{len(shared.pairs)} of {shared.val_size} {samples_title('validation', shared.is_complete)} "
        f"({part:.1%}) also occur in training (compared {comparison}): val {listed}.{chance}",
        where=replace(get_location(line), sample=shared.pairs[0][1]),
        cause="The splits were taken from overlapping parts, or the data contained copies before they were split.",
        fix="Divide the indices of the dataset at random, so that each of them is in one split only."
        if shared.matched_by == "index"
        else "Drop the copies, and then divide the remaining samples at random.",
        evidence={
            "share": part,
            "pairs of train and val": shared.pairs[:20],
            "compared": [shared.train_size, shared.val_size],
            "share in random splits": shared.chance_share,
        },
        explains=("T611", "D107"),
        severity=severity,
        setup_fix="split again",
    )


def _of_store(finding: Finding, store: SharedStore) -> Finding:
    """Return a finding on shared samples whose cause is a container that both datasets hold."""
    origin, kind, where = store.origin, store.kind.__name__, finding.where
    holder, fix = "It was passed to both of them.", f"Pass a {kind} of its own to each of the two datasets."
    if origin is not None:
        holder = _HOLDERS[origin.holder].format(name=origin.name, owner=origin.owner)
        fix = (
            f"{origin.name} = {kind}() if {origin.name} is None else {origin.name}   # with the default None"
            if origin.holder == "default"
            else f"self.{origin.name} = {kind}()   # in __init__, one for each dataset"
        )
        where = replace(get_location(origin.line), sample=where.sample) if origin.line else where
    effect = (
        f"If the {kind} is emptied before the read, the validation dataset returns another sample."
        if store.is_cache
        else f"Both return these samples from the {kind} alone."
    )
    cause = f"Both datasets keep their samples in the same {kind}. {holder} {effect}"
    return replace(finding, where=where, cause=cause, fix=fix, setup_fix="")


def _window_overlap_finding(windows: SharedWindows, line: SourceLine | None) -> Finding:
    train_index, val_index = windows.pairs[0]
    where, related = locate_ungrouped_split(line, val_index)
    return Finding(
        message=f"{len(windows.pairs)} of {windows.val_size} compared validation windows share at least "
        f"{windows.length - windows.max_shift} of their {windows.length} steps with a training window, for example val "
        f"{val_index} with train {train_index}.",
        where=where,
        related=related,
        cause="Overlapping windows were created first, and then split at random.",
        fix="Split by recording, person or any other group, or cut one long series at a point in time. Then create the "
        "windows of each part.",
        evidence={"pairs of train and val": windows.pairs[:20], "compared": windows.val_size},
        explains=("T611", "D107"),
        severity="warning",
    )


def _near_copy_finding(near_copies: NearDuplicates, repetition: SourceLine | None, line: SourceLine | None) -> Finding:
    train_index, val_index = near_copies.pairs[0]
    where, related = locate_ungrouped_split(repetition or line, val_index)
    of_class = " of the same class" if near_copies.has_classes else ""
    return Finding(
        message=f"{len(near_copies.pairs)} of {near_copies.queries} compared validation samples "
        f"({near_copies.share:.0%}) are near copies of a training sample{of_class}, for example val "
        f"{val_index} of train {train_index}; {near_copies.expected_share:.1%} would be expected in a random split.",
        where=where,
        related=related,
        cause="The data were augmented or oversampled before they were split, or contain several samples per source.",
        fix="Split the data first, with all samples of a source in one split, and augment only the training split.",
        evidence={
            "share": near_copies.share,
            "expected": near_copies.expected_share,
            "pairs of train and val": near_copies.pairs[:20],
        },
        explains=("T611", "D107"),
        severity="warning",
    )


def _setup_with_validation_from(start: int) -> Setup:
    """Train on the first 48 samples, validate on 16 samples from ``start``."""
    x, y = points()
    train, val = TensorDataset(x[:48], y[:48]), TensorDataset(x[start : start + 16], y[start : start + 16])
    return Setup(network(3), DataLoader(train, 16), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Validation consists of the last training samples."""
    return _setup_with_validation_from(32)


def good() -> Setup:
    """Validation consists of other samples."""
    return _setup_with_validation_from(48)
