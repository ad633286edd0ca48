"""D109: the values of the two splits have different units."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.measurements.split_statistics import UnitComparison
from nbdebug.measurements.split_transfer import SplitTransfer
from nbdebug.measurements.token_shares import TokenShares
from nbdebug.preserve import Preserve
from nbdebug.rule_engine.data_edits import order_validation
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.evaluated_inputs import truncated_inputs_finding
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import Origin, origin_line, target_coding_line
from nbdebug.setup.differing_options import find_differing_option
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.split_fits import own_fit_line
from nbdebug.setup.split_transforms import find_lacking_option, find_lacking_transform
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement
from nbdebug.source.executed_lines import find_differing_line
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_name, enclosing_scope, find_unique_line, matches_scaling

_ORIGINS: tuple[Origin, ...] = ("inputs", "targets", "validation values")
_CONSEQUENCES = ("D104", "D125", "L208", "T609", "T611", "E702", "E703", "E706", "E709")
_SAMPLES_TO_TRACE = 8
_MIN_TRANSFER_SIGMAS = 5.0
_REVERSED_CHANNELS = order_validation([2, 1, 0])
_CHANNEL_ORDER_FIX = "x_val = x_val[:, [2, 1, 0]]   # or read both with the same library: OpenCV returns BGR"
_SAME_MAPPINGS_FIX = (
    "# create each vocabulary, mapping and transform once, from the training split, and use it for both splits"
)
_SAME_PREPROCESSING_FIX = (
    "mean, std = x_train.mean(0), x_train.std(0)\nx_train, x_val = (x_train - mean) / std, (x_val - mean) / std"
)

_STANDARDIZE_OTHER_FIX = (
    "# apply the same transform, with the mean and deviation of the raw training rows, to the {split} rows"
)
_UNEQUAL = 2.0  # ratio of two ratios of spreads


@rule("D109", "warning", origin="validation values")
def split_shift(
    setup: Setup,
    unit_comparisons: list[UnitComparison] | NotChecked,
    split_transfer: SplitTransfer | NotChecked,
    token_shares: TokenShares | NotChecked | None,
    loop: LoopSummary | NotChecked,
    *,
    units: float = 2.0,
    alone: float = 10.0,
    moved: float = 1.0,
    worse: float = 0.1,
) -> Iterator[Finding]:
    """The values of validation have other units than those of training, or another channel order.

    ## What it does
    Compares location and spread of each feature, and of real-valued targets, in the two splits as the model receives
    them. Compares the channels of images also in reverse order. In your own loop, it compares what the loop does to the
    batches of either loader before the model receives them.

    ## Why it matters
    If one split was preprocessed differently (normalization, division by 255, another color order, targets in
    thousands), every validation score is computed on other data than the model was trained on.

    ## How it is measured
    A warning requires values whose spread (mean absolute deviation) is at least ``units`` = 2
    times larger or smaller, both in the median feature and between consecutive values within samples, with nine tenths
    of the features in the same direction: drift changes the level of a series, and rarely its increments. If a sample
    is a single number, the factor is ``alone`` = 10. Channels are swapped if their means differ by 5 standard errors in
    the given order and by less than 2 in reverse order. Columns of a table are in another order if at least two of them
    differ (test of Kolmogorov and Smirnov, p < 1e-5) and each of these agrees with another column (p > 0.01). A single
    column has another unit if the interquartile ranges differ by a factor of 10 and the columns differ (p < 1e-5), but
    agree after the multiplication by this factor (p > 0.01). Values have another offset if each split has a most
    frequent value, a fifth of all or more, that the other split lacks, such as the background of images that only one
    split centers.

    Features that each have another unit are reported if their means moved by more than ``alone`` spreads in the median
    feature, since a linear trend moves them by two to three; or if a tenth of the features have a spread ``alone``
    times larger, and another tenth ``alone`` times smaller. Means that moved by ``moved`` spreads are only a note,
    since this may be drift. Each difference must also exceed those between at least 39 random divisions of all samples
    into two splits with the same classes, because values with heavy tails differ by chance.

    In your loop, exactly: in all inspected passes of both phases, the inputs are those of the loader times a constant
    plus an offset, and the constants of the phases differ by a factor of ``units``. Inputs are also
    reported if all inspected evaluation passes receive them without their fractions, and training passes as they are.

    A token, such as that of unknown words, is reported if it makes up 15% of the tokens of one split and ten times
    less of the other, without padding, and stands in half of the samples.

    A learner of classes that was fitted on up to 600 training rows must predict validation rows as well as one that was
    fitted on the other validation rows. If the latter is better by ``worse`` = 0.1 and five standard errors, and the
    former is as much better on training rows that were left out, inputs or classes of the splits mean different things.
    The standard errors are those of groups of neighbors in the dataset or of similar rows, if these are larger: windows
    of a few persons are dependent.

    ## How to fix
    Preprocess both splits with the same function and the statistics of the training split.

    ## When to ignore
    When validation intentionally comes from another distribution.

    ## References
    S. Rabanser, S. Günnemann, Z. Lipton, Failing Loudly: An Empirical Study of Methods for Detecting Dataset Shift
    (2019), arXiv:1810.11953.
    """
    if isinstance(loop, LoopSummary):
        yield from _loop_findings(loop, units)
        return
    findings = (
        []
        if isinstance(unit_comparisons, NotChecked)
        else [*_unit_findings(setup, unit_comparisons, units, alone, moved)]
    )
    if isinstance(token_shares, TokenShares):
        findings.append(_token_finding(setup, token_shares))
    yield from findings
    is_explained = any(finding.severity != "note" for finding in findings)
    if isinstance(split_transfer, SplitTransfer) and not is_explained:
        yield from _transfer_findings(setup, split_transfer, worse)
    elif isinstance(unit_comparisons, NotChecked):
        raise unit_comparisons


def _unit_findings(
    setup: Setup, comparisons: list[UnitComparison], units: float, alone: float, moved: float
) -> Iterator[Finding]:
    """Report the parts of the data that have other units, another order or another offset in validation."""
    for part_units in comparisons:
        position = -1 if part_units.name == "target" else 0
        if part_units.column_order:
            yield _order_finding(setup, part_units)
            continue
        factor, threshold = part_units.scale_factor, units if part_units.step_ratio is not None else alone
        if max(factor, 1 / factor) >= max(threshold, part_units.chance.scale_factor):
            where = get_location(_differing_line(setup, position, factor))
            yield _finding(
                part_units,
                _describe_scale(part_units),
                _SAME_PREPROCESSING_FIX,
                where,
            )
        elif part_units.are_channels_reversed:
            yield _finding(
                part_units,
                "have their channels in reverse order in validation",
                _CHANNEL_ORDER_FIX,
                get_location(_differing_line(setup, position)),
            )
        elif part_units.frequent_values is not None:
            train_value, val_value = part_units.frequent_values
            yield _finding(
                part_units,
                f"have another offset in validation: the most frequent value is {train_value:.4g} in training and "
                f"{val_value:.4g} in validation, and neither occurs in the other split",
                _SAME_PREPROCESSING_FIX,
                get_location(_differing_line(setup, position)),
            )
        elif part_units.column_factors:
            yield _finding(
                part_units,
                f"have another unit in validation in {_describe_columns(part_units)}, while they agree with training "
                "after a change of the unit",
                _SAME_PREPROCESSING_FIX,
                get_location(_differing_line(setup, position)),
            )
        elif observation := _describe_other_units(part_units, alone):
            yield _finding(
                part_units, observation, _SAME_PREPROCESSING_FIX, get_location(_differing_line(setup, position))
            )
        elif part_units.mean_shift > max(moved, part_units.chance.mean_shift):
            yield _drift_finding(part_units)


def _describe_scale(part_units: UnitComparison) -> str:
    """Return the change of the spread; as a range, with that of the means, if it differs between features."""
    factor, (low, high), (near, far) = part_units.scale_factor, part_units.ratio_range, part_units.shift_range
    if high < _UNEQUAL * low:
        change = f"{factor:.3g} times larger" if factor > 1 else f"{1 / factor:.3g} times smaller"
        return f"have a scale that is {change} in validation than in training"
    return (
        f"have spreads in validation that are {_plain(low)} to {_plain(high)} times those in training, and means that "
        f"are {_plain(near)} to {_plain(far)} mean absolute deviations of training away"
    )


def _plain(value: float) -> str:
    """Return a number with three significant digits and no exponent."""
    return f"{float(f'{value:.3g}'):,g}"


def _describe_columns(part_units: UnitComparison) -> str:
    """Return the columns of another unit with their factors, in words."""
    texts = [
        f"column {column} ({f'{factor:.3g} times larger' if factor > 1 else f'{1 / factor:.3g} times smaller'})"
        for column, factor in part_units.column_factors
    ]
    return ", ".join(texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else "")


def _token_finding(setup: Setup, shares: TokenShares) -> Finding:
    """Report a token that dominates one split only."""
    return Finding(
        message=f"Token {shares.token} of input {shares.input_index} makes up {shares.val:.1%} of the validation "
        f"tokens and {shares.train:.1%} of the training tokens.",
        where=get_location(_differing_line(setup)),
        cause="The texts of the two splits were prepared differently (case, punctuation, tokenizer, vocabulary), so "
        "that many words of one split are unknown.",
        fix="# prepare the texts of both splits by one function, and use the vocabulary of the training split",
        evidence={
            "input": shares.input_index,
            "token": shares.token,
            "training": shares.train,
            "validation": shares.val,
        },
        explains=(*_CONSEQUENCES, "D105", "D107", "D122", "D123"),
    )


def _describe_other_units(part_units: UnitComparison, factor: float) -> str | None:
    """Describe features that each have another unit; None if drift explains their means and spreads."""
    shift, (low, high) = part_units.mean_shift, part_units.outer_ratios
    if shift > max(factor, part_units.chance.mean_shift):
        return (
            f"have means in validation that are {shift:.3g} mean absolute deviations away from those in training "
            "(median over the features)"
        )
    if min(1 / low, high) > max(factor, part_units.chance.opposite_factor):
        return (
            f"have spreads that are {1 / low:.3g} times smaller in validation than in training for some features, and "
            f"{high:.3g} times larger for others"
        )
    return None


def _transfer_findings(setup: Setup, transfer: SplitTransfer, min_gain: float) -> Iterator[Finding]:
    """Report validation rows that a learner of validation rows predicts better than one of training rows."""
    if transfer.inside - transfer.across < min_gain or transfer.sigmas < _MIN_TRANSFER_SIGMAS:
        return
    if transfer.within_train - transfer.across < min_gain or transfer.train_sigmas < _MIN_TRANSFER_SIGMAS:
        return
    yield Finding(
        message="Inputs and targets are related differently in the two splits. A simple learner fitted on "
        f"{transfer.train_rows} training rows is right on {transfer.within_train:.0%} of other training rows and on "
        f"{transfer.across:.0%} of {transfer.val_rows} validation rows. One fitted on validation rows is right on "
        f"{transfer.inside:.0%} of other validation rows.{_describe_repair(transfer)}",
        where=get_location(target_coding_line(setup) or _differing_line(setup)),
        cause="The images of the two splits have their channels in opposite orders, RGB and BGR."
        if transfer.repair == "reorder"
        else "One split was preprocessed, encoded or labeled differently from the other, such as by a vocabulary or a "
        "mapping of its own.",
        setup_fix={"reorder": _REVERSED_CHANNELS, "align": "match validation", None: ""}[transfer.repair],
        fix=_CHANNEL_ORDER_FIX if transfer.repair == "reorder" else _SAME_MAPPINGS_FIX,
        evidence={
            "rows": (transfer.train_rows, transfer.val_rows),
            "across": transfer.across,
            "inside": transfer.inside,
            "within training": transfer.within_train,
            "standardized": transfer.aligned,
            "channels reversed": transfer.reordered,
        },
        explains=_CONSEQUENCES,
        aspect="learners",
    )


def _describe_repair(transfer: SplitTransfer) -> str:
    """Say how well the learner of the training rows does after the change of the validation inputs that repairs it."""
    if transfer.repair == "reorder":
        return (
            " With the channels of the validation images in reverse order, the learner of training rows is right on "
            f"{transfer.reordered:.0%} of them."
        )
    if transfer.repair == "align":
        return (
            " With the inputs of each split standardized by their own statistics, the learner of training rows is "
            f"right on {transfer.aligned:.0%} of validation rows."
        )
    return ""


def _scaling_line(setup: Setup, factor: float) -> SourceLine | None:
    """Return the only line that scales by a factor; if it is in a function, the data must be made by a call of it."""
    line = find_unique_line(matches_scaling(factor), user_written_objects(setup))
    scope = enclosing_scope(line) if line else None
    if line is None or not isinstance(scope, ast.FunctionDef):
        return line
    origins = list(filter(None, (origin_line(setup, origin) for origin in _ORIGINS)))
    statements = [covering_statement(origin) for origin in origins]
    calls = {call_name(node) for statement in statements if statement for node in ast.walk(statement)}
    return line if scope.name in calls | {origin.function for origin in origins} or not origins else None


def _differing_line(setup: Setup, position: int = 0, factor: float | None = None) -> SourceLine | None:
    """Return the line that gives the dataset of one split another option, or that only one split executes.

    A line that scales by a known factor comes before it. Else it is the one at which a split lacks a transform.
    """
    scaling_line = _scaling_line(setup, factor) if factor else None
    if setup.val_loader is None:
        return scaling_line
    datasets = [getattr(loader, "dataset", None) for loader in (setup.train_loader, setup.val_loader)]
    executed, passed = None, None
    if all(map(is_map_style, (setup.train_loader, setup.val_loader))):
        with Preserve(*datasets):
            train, val = (partial(_read_samples, dataset) for dataset in datasets)
            executed = find_differing_line(train, val)
            passed = find_differing_option(setup, position)
    line = passed or scaling_line or find_lacking_option(setup, executed) or executed
    return line or own_fit_line(setup) or find_lacking_transform(setup, position)


def _read_samples(dataset: Any) -> None:
    """Read a few samples; random choices in a dataset then take each of their branches."""
    for index in range(min(_SAMPLES_TO_TRACE, len(dataset))):
        dataset[index]


def _loop_findings(loop: LoopSummary, min_factor: float) -> Iterator[Finding]:
    """Report inputs that the loop scales, or rounds toward zero, in one phase only."""
    scales, lines = loop.batch_alignment.scales, loop.forward_passes.lines
    if loop.evaluated_inputs.are_truncated and "train" in scales and scales["train"].is_identity:
        yield truncated_inputs_finding(loop.evaluated_inputs)
    if "train" not in scales or "val" not in scales or not scales["train"].scale or not scales["val"].scale:
        return
    factor = scales["val"].scale / scales["train"].scale
    if 1 / min_factor < abs(factor) < min_factor:
        return
    changed = "train" if scales["val"].is_identity else "val"
    yield Finding(
        message=f"Your loop multiplies the inputs of training batches by {scales['train'].scale:.4g} and those of "
        f"validation batches by {scales['val'].scale:.4g} before the model receives them.",
        where=get_location(lines.get("forward" if changed == "train" else "validation")),
        cause="Only one phase of the loop rescales the batches of its loader.",
        fix="# move the scaling into the dataset, or apply it before both calls of the model",
        evidence={"training": scales["train"].scale, "validation": scales["val"].scale},
        explains=_CONSEQUENCES,
    )


def _setup_fix(part_units: UnitComparison, repair: str) -> str:
    """Return the change of the validation inputs that gives them the units or the order of those of training."""
    if part_units.column_order:
        return order_validation(part_units.column_order)
    return _REVERSED_CHANNELS if repair == _CHANNEL_ORDER_FIX else "match validation"


def _finding(part_units: UnitComparison, observation: str, repair: str, where: Location) -> Finding:
    cause, split = "One split was preprocessed differently from the other.", part_units.standardized_split
    if split and repair == _SAME_PREPROCESSING_FIX:
        other = "validation" if split == "training" else "training"
        cause = f"The {split} rows are standardized (mean 0, deviation 1), and the {other} rows are not."
        repair = _STANDARDIZE_OTHER_FIX.format(split=other)
    train_means, val_means = ([float(f"{value:.3g}") for value in side[:3]] for side in part_units.means)
    return Finding(
        message=f"The values of {part_units.name} {observation}. Means of the first features: {train_means} in "
        f"training, {val_means} in validation.",
        where=where,
        cause=cause,
        fix=repair.replace("x_", "y_") if part_units.name == "target" else repair,
        setup_fix=_setup_fix(part_units, repair) if part_units.name == "input 0" else "",
        evidence={
            "means": part_units.means,
            "mean absolute deviations": part_units.spreads,
            "within samples": part_units.step_ratio,
            "scale of validation": part_units.scale_factor,
        },
        explains=_CONSEQUENCES,
    )


def _order_finding(setup: Setup, part_units: UnitComparison) -> Finding:
    order = part_units.column_order
    pairs = [f"{i} holds those of {column}" for i, column in enumerate(order) if i != column]
    listed = ", ".join(pairs[:4]) + (", …" if len(pairs) > 4 else "")
    indices = sorted(range(len(order)), key=order.__getitem__)
    return _finding(
        part_units,
        f"have their columns in another order in validation ({listed}), while all columns agree in the order of "
        "training",
        f"x_val = x_val[:, {indices}]   # or select the columns by name, in one order",
        get_location(_differing_line(setup)),
    )


def _drift_finding(part_units: UnitComparison) -> Finding:
    return Finding(
        message=f"The means of {part_units.name} differ between training and validation by "
        f"{part_units.mean_shift:.3g} mean absolute deviations (median over the features).",
        cause="The split follows time or location, or one split was not centered.",
        evidence={
            "means": part_units.means,
            "moved": part_units.mean_shifts.tolist()[:20],
            "median": part_units.mean_shift,
        },
        severity="note",
    )


def _setup_with_scaled_validation(factor: float) -> Setup:
    """Two classes; validation inputs are multiplied by ``factor``."""
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    y = (x.sum(1) > 0).long()
    train, val = TensorDataset(x[:120], y[:120]), TensorDataset(factor * x[120:], y[120:])
    return Setup(network(2), DataLoader(train, 16, shuffle=True), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Validation inputs have other units."""
    return _setup_with_scaled_validation(10.0)


def good() -> Setup:
    """Both splits in the same units."""
    return _setup_with_scaled_validation(1.0)
