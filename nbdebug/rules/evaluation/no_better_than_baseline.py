"""E709: a constant, linear or input-blind model is as good."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import LABELS_UNRELATED
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.baselines.baselines import Baselines
    from nbdebug.baselines.comparison import MetricComparison
    from nbdebug.tools.errors import Errors

_CONSTANT_BASELINES = ("majority", "prior", "mean", "median")
_BEST_VALUES = {"accuracy": 1.0, "balanced accuracy": 1.0}  # the best value of all other metrics is 0
_MIN_ROWS = 30
_ONE_SIDED = 1.645 / 1.960  # standard errors of a normal variable at a one-sided level of 5%, to those of two sides
_MAX_SPREAD = 1e-5  # of predictions that differ by rounding, relative to the largest


@rule("E709", "error")
def no_better_than_baseline(
    errors: Errors, baselines: Baselines, *, room: float = 1 / 3, worse: float = 0.05
) -> Iterator[Finding]:
    """A constant, linear or input-blind model is as good.

    ## What it does
    Compares the model, on the same rows, with the most common class or the mean, with a random guess by class
    frequency, with its own predictions shuffled over the rows, and with a linear model of the inputs.

    ## Why it matters
    A network that is not better than a constant has learned nothing. A network whose shuffled predictions are as good
    does not use its input. A network that is worse than a linear model has a fault or is unsuitable.

    ## How it is measured
    By paired comparisons on each row: the confidence interval of McNemar's difference for accuracy, the bootstrap for
    balanced accuracy, loss and regression errors, all at 95%. It is an error if the model is not significantly better
    by any metric, at a one-sided level of 5%, and an improvement would be detectable: the interval of each gain ends
    below a third (``room``) of the possible gain. It is a warning if a linear model, trained on up to 5,000 rows, is
    significantly better by every metric, by ``worse`` = 0.05 of accuracy or a twentieth of the squared error, and by at
    least a fifth of the model's error. It is a note if the linear model is equal within a twentieth and both are wrong
    in at least one of twenty rows.

    ## How to fix
    Check the findings that rank above it. Against a linear model: train longer or at another learning rate, scale the
    inputs.

    ## When to ignore
    When the model is not trained yet, or the inputs contain almost no information about the target, as for future
    returns.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks: baselines, input-independent and human. McNemar 1947,
    doi:10.1007/BF02295996. Agresti and Min 2005, doi:10.1002/sim.1917.
    """
    if len(errors.table) < _MIN_ROWS:
        raise NotChecked(f"{len(errors.table)} rows are too few to compare a model with a baseline")
    equal_baselines = [
        name
        for name in ("blind", *_CONSTANT_BASELINES)
        if name in baselines.names and _is_as_good(baselines, name, room)
    ]
    if equal_baselines:
        yield _no_better_than_constant_finding(baselines, equal_baselines, is_same=_is_same_for_all_rows(errors))
    elif (linear := _linear_comparisons(baselines)) and _is_worse_than_linear(linear, worse):
        yield _worse_than_linear_finding(baselines, linear)
    elif linear and _is_equal_to_linear(linear, worse):
        yield _equal_to_linear_finding(baselines, linear)


def _comparisons_with(baselines: Baselines, name: str) -> list[MetricComparison]:
    """Return the comparisons with one baseline, one for each metric that it shares with the model."""
    return [comparison for metric in baselines.metrics if (comparison := baselines.get(name, metric)) is not None]


def _is_as_good(baselines: Baselines, name: str, room: float) -> bool:
    """Check that the model is not better than a baseline by any metric, although that would be detectable.

    The partner of a constant must not be beaten either, for example on the loss by predicting the prior.
    """
    comparisons = [
        comparison
        for baseline in (name, *_partner_baselines(name))
        for comparison in _comparisons_with(baselines, baseline)
    ]
    return not any(map(_is_beaten, comparisons)) and all(
        _has_small_gain(comparison, room) for comparison in comparisons
    )


def _is_beaten(comparison: MetricComparison) -> bool:
    """Check whether the model is better than a baseline at a one-sided level of 5%."""
    return comparison.gain > _ONE_SIDED * (comparison.gain - comparison.gain_low)


def _partner_baselines(name: str) -> tuple[str, ...]:
    """Return the constants that must be equal too: the most common class has no loss, the mean suits squared errors."""
    return {"majority": ("prior",), "prior": ("majority",), "mean": ("median",), "median": ("mean",)}.get(name, ())


def _has_small_gain(comparison: MetricComparison, room: float) -> bool:
    """Check whether the interval of the gain ends below a share of the possible gain over a baseline."""
    return comparison.gain_high < room * abs(_BEST_VALUES.get(comparison.metric, 0.0) - comparison.value)


def _linear_comparisons(baselines: Baselines) -> list[MetricComparison]:
    """Return the comparisons with the linear model, except by loss, which early stopping and smoothing change."""
    return [comparison for comparison in _comparisons_with(baselines, "linear") if comparison.metric != "log loss"]


def _model_error(comparison: MetricComparison) -> float:
    """Return the error of the model: the distance of its metric from the best value."""
    return abs(_BEST_VALUES.get(comparison.metric, 0.0) - comparison.value) - comparison.gain


def _is_worse_than_linear(linear: list[MetricComparison], worse: float) -> bool:
    """Check whether a linear model is significantly better, and by a relevant part of the model's error."""
    thresholds = [
        worse if comparison.metric in _BEST_VALUES else worse * _model_error(comparison) for comparison in linear
    ]
    is_significant = all(
        comparison.gain_high < 0 and -comparison.gain >= threshold
        for comparison, threshold in zip(linear, thresholds, strict=True)
    )
    return is_significant and all(-comparison.gain >= _model_error(comparison) / 5 for comparison in linear)


def _is_equal_to_linear(linear: list[MetricComparison], margin: float) -> bool:
    """Check whether a linear model is as good within a small margin, while an improvement is possible."""
    improvable = [
        comparison
        for comparison in linear
        if _model_error(comparison) >= margin or comparison.metric not in _BEST_VALUES
    ]
    margins = [
        margin / 2 if comparison.metric in _BEST_VALUES else margin * _model_error(comparison) for comparison in linear
    ]
    return len(improvable) == len(linear) and all(
        comparison.gain_high < limit for comparison, limit in zip(linear, margins, strict=True)
    )


def _is_same_for_all_rows(errors: Errors) -> bool:
    """Check whether the predictions of all rows are one class, or one number up to rounding."""
    predictions = getattr(errors.table, "prediction", None)
    if not isinstance(predictions, np.ndarray) or not len(predictions) or predictions.dtype.kind not in "biuf":
        return False
    spread = np.ptp(predictions.astype(np.float64), axis=0)
    return bool((spread <= _MAX_SPREAD * np.abs(predictions).max()).all())


def _no_better_than_constant_finding(baselines: Baselines, equal_baselines: list[str], *, is_same: bool) -> Finding:
    """Report predictions that are not better than a constant."""
    metric = baselines.metrics[0]
    model = baselines.get("model", metric)
    other = baselines.get("blind" if "blind" in equal_baselines else equal_baselines[0], metric)
    assert model is not None
    assert other is not None
    blind = "blind" in equal_baselines
    description = baselines.descriptions[other.name]
    is_worse = other.gain_high < 0
    relation = "significantly worse" if is_worse else "not significantly better"
    return Finding(
        message=f"The model predicts the same for each of the {other.rows} rows. Its {metric} is {model.value:.4g}."
        if is_same
        else f"The model is {relation} than a baseline. Its {metric} is {model.value:.4g}; the {metric} of "
        f"{description} is {other.value:.4g} (difference {other.gain_low:.3g} to {other.gain_high:.3g}, {other.rows} "
        "rows).",
        cause=_blind_cause(is_worse=is_worse)
        if blind
        else "The predictions are related to the input, but no metric is better than that of a constant: the scale, "
        "threshold or offset of the predictions is wrong.",
        fix="dbg.overfit()   # if the model cannot learn sixteen samples either, the fault is in the model or the loss",
        evidence=_metric_values(baselines, metric) | {"difference": (other.gain_low, other.gain_high)},
        explains=("E703", "E704", "E705"),
        confirms=(LABELS_UNRELATED,) if blind else (),
        severity=None if blind or "mean" in equal_baselines else "warning",
    )


def _blind_cause(*, is_worse: bool) -> str:
    """Return why predictions are not better than the same in another order."""
    if is_worse:
        return (
            "The predictions depend on the inputs, but not as the targets do: the same predictions are better if they "
            "are assigned to other rows at random."
        )
    return "Either the network has not learned what its inputs tell about the targets, or they tell nothing."


def _worse_than_linear_finding(baselines: Baselines, linear: list[MetricComparison]) -> Finding:
    """Report a linear model that is better."""
    comparison = linear[0]
    return Finding(
        message=f"The {comparison.metric} of a linear model of the inputs, trained on {baselines.trained_on} rows, is "
        f"{comparison.value:.4g}; that of your model is {comparison.value + _metric_difference(comparison):.4g}, "
        f"worse by {-comparison.gain_high:.3g} to {-comparison.gain_low:.3g} on {comparison.rows} rows.",
        cause="The network has not found what a linear model finds in the inputs: it was not trained long enough, its "
        "learning rate or the scale of its inputs is wrong, or its architecture loses the information.",
        fix='errors.baselines().only["linear"]   # the rows that only the linear model predicts correctly',
        evidence=_metric_values(baselines, comparison.metric)
        | {"difference": (comparison.gain_low, comparison.gain_high)},
        severity="warning",
    )


def _equal_to_linear_finding(baselines: Baselines, linear: list[MetricComparison]) -> Finding:
    """Report a linear model that is as good."""
    comparison = linear[0]
    return Finding(
        message=f"The {comparison.metric} of a linear model of the inputs is {comparison.value:.4g}, that of your "
        f"model {comparison.value + _metric_difference(comparison):.4g}: your model is better by at most "
        f"{comparison.gain_high:.3g} ({comparison.rows} rows).",
        cause="Either the relation between inputs and targets is linear, or the network has learned only its linear "
        "part: it was not trained long enough, or it is too small.",
        fix="Train longer or a larger network, and compare again by errors.baselines(); if nothing is gained, the "
        "linear model suffices.",
        evidence=_metric_values(baselines, comparison.metric)
        | {"difference": (comparison.gain_low, comparison.gain_high)},
        severity="note",
    )


def _metric_difference(comparison: MetricComparison) -> float:
    """Return the difference between the model's metric and the baseline's."""
    return comparison.gain if comparison.metric in _BEST_VALUES else -comparison.gain


def _metric_values(baselines: Baselines, metric: str) -> dict[str, float | int]:
    """Return the metric of the model and of every baseline."""
    values = {comparison.name: comparison.value for comparison in baselines.comparisons if comparison.metric == metric}
    return {**values, "rows": baselines.rows, "training rows": baselines.trained_on}


def bad() -> Setup:
    """Random labels."""
    data = rings(noise=1.0), rings(1024, noise=1.0, seed=1)
    return training_setup(mlp(8, 2, 2), *data, torch.nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Eight epochs."""
    train(setup, 8)


def good() -> Setup:
    """Correct labels."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
