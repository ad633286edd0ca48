"""D114: values far outside the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.measurements.feature_values import FeatureValues, same_features
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.column_places import only_column_line
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup

_TIMES_FARTHER = 3.0  # than any training value: heavy tails of a feature are in both splits


@rule("D114", "note", origin="inputs", find_line=only_column_line)
def outliers(
    train_features: list[FeatureValues],
    val_features: list[FeatureValues] | NotChecked,
    *,
    distance: float = 10.0,
    share: float = 0.01,
) -> Iterator[Finding]:
    """Single values lie far outside the rest of their feature.

    ## What it does
    Compares the values of each column of a table, and of each real-valued target, with the quartiles of the feature.
    For images, signals and sequences it compares the root mean square of each sample.

    ## Why it matters
    One wrong unit or decimal point dominates a squared error, the mean and the standard deviation used to standardize,
    and the gradient of each batch that contains it.

    ## How it is measured
    By the distance from the nearer quartile in units of the interquartile range. It is reported from ``distance`` = 10,
    if a single value or at most a ``share`` of 1% of the values lie so far out; if there are more, the feature has
    heavy tails. Validation is judged in the same way, by values that also lie three times as far out as any training
    value. Tukey calls values beyond 3 far out. Beyond 10 lies one of a million values of a log-normal distribution with
    sigma 0.4.

    ## How to fix
    Look at the samples. Repair or drop wrong values; take the logarithm of a feature with heavy tails.

    ## When to ignore
    When the values are right and the loss is robust against them.

    ## References
    J. W. Tukey, Exploratory Data Analysis (1977), section 2D: fences at 1.5 and 3 interquartile ranges.
    """
    for features in train_features:
        yield from _find_outliers(features, None, distance, share)
    for features in [] if isinstance(val_features, NotChecked) else val_features:
        if (training := same_features(features, train_features)) is not None:
            yield from _find_outliers(features, training, distance, share)


def _find_outliers(
    features: FeatureValues, training: FeatureValues | None, distance: float, share: float
) -> Iterator[Finding]:
    """Report the values of a part that are far out, and three times as far as any value of ``training``."""
    values = _judged_values(features)
    distances = _quartile_distances(values)
    limits = torch.full((len(values), 1), distance)
    if training is not None:
        farthest = _quartile_distances(_judged_values(training)).amax(1, keepdim=True)
        limits = torch.maximum(limits, _TIMES_FARTHER * farthest)
    is_far = distances > limits
    is_reported = is_far.any(1) & (is_far.sum(1) <= max(1.0, share * values.shape[1]))
    if rows := is_reported.nonzero().flatten().tolist():
        yield _finding(features, values, distances, rows, distance)


def _judged_values(features: FeatureValues) -> Tensor:
    """Return the values of a table, or the magnitude of each other sample."""
    return features.values if features.is_table else _sample_magnitudes(features.part)


def _sample_magnitudes(part: Tensor) -> Tensor:
    """Return the root mean square of each sample as one row."""
    return part.flatten(1).square().mean(1).sqrt()[None]


def _quartile_distances(values: Tensor) -> Tensor:
    """Return how far each value lies outside the quartiles, in interquartile ranges; 0 for a range of zero."""
    low, high = _quantile(values, 0.25), _quantile(values, 0.75)
    outside = torch.maximum(low - values, values - high).clamp_min(0)
    return torch.where(high > low, outside / (high - low).clamp_min(1e-30), torch.zeros(()))


def _quantile(values: Tensor, share: float) -> Tensor:
    """Return the quantile of each row; unlike torch.quantile, for any number of values."""
    return values.kthvalue(max(1, round(share * values.shape[1])), dim=1, keepdim=True).values


def _finding(features: FeatureValues, values: Tensor, distances: Tensor, rows: list[int], limit: float) -> Finding:
    row = max(rows, key=lambda number: float(distances[number].max()))
    position = int(distances[row].argmax())
    sample = features.indices[position]
    named = replace(features, split="train")  # the sample names the split
    subject = named.feature_name(row) if features.is_table else f"the root mean square of {named.title}"
    count = int((distances[rows] > limit).sum())
    place = "validation sample" if features.split == "val" else "sample"
    return Finding(
        message=f"{count} {'value lies' if count == 1 else 'values lie'} far outside the rest of the "
        f"{len(values[row]):,} samples read. In {place} {sample}, "
        f"{subject} is {float(values[row, position]):.4g}, {float(distances[row, position]):.3g} interquartile ranges "
        f"from the nearer quartile; values beyond {limit:g} are reported.",
        where=Location(sample=sample),
        cause="Either a wrong unit or decimal point, a sensor error, or a feature with heavy tails.",
        fix=f"Look at sample {sample}: repair a wrong unit, or drop a faulty reading; take the logarithm of a feature "
        "with heavy tails.",
        evidence={
            "features": rows,
            "samples": [features.indices[int(distances[number].argmax())] for number in rows],
            "distances": [float(distances[number].max()) for number in rows],
            "value": float(values[row, position]),
            "count": count,
            "samples read": len(values[row]),
            "limit": limit,
            **features.input_evidence,
        },
        aspect="validation" if features.split == "val" else "",
    )


def _setup_with_first_value(factor: float) -> Setup:
    """Points of which one value is multiplied by ``factor``."""
    x, y = points()
    x[5, 2] *= factor
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """One value is a thousand times larger."""
    return _setup_with_first_value(1000.0)


def good() -> Setup:
    """All values have the same unit."""
    return _setup_with_first_value(1.0)
