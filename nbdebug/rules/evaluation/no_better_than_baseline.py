"""E709: a constant, linear or input-blind model does as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.baselines import Baselines, Versus
    from nbdebug.tools.errors import Errors

CONSTANTS = ("majority", "prior", "mean", "median")
BEST = {"accuracy": 1.0, "balanced accuracy": 1.0}  # of all other metrics the best is 0
FEWEST = 30


@rule("E709", "error")
def no_better_than_baseline(
    errors: Errors, baselines: Baselines, *, room: float = 1 / 3, worse: float = 0.05
) -> Iterator[Finding]:
    """A constant, linear or input-blind model does as well.

    ## What it does
    Compares the model, on the same rows, with the commonest class or the mean, with a guess by frequency, with its own
    answers when they are dealt out to other rows, and with a linear model of the inputs.

    ## Why it matters
    A network that a constant equals has learned nothing; one whose answers are as good for other rows does not use its
    input; one that a linear model beats has a fault, or is the wrong one.

    ## How it is measured
    By pairs on each row: the interval of McNemar's difference for accuracy, the bootstrap for balanced accuracy, loss
    and errors of numbers, all at 95 %. An error, where by no metric the model is better beyond chance, and it would be
    seen if it were: the interval of each gain ends under a third (``room``) of what is left to gain. A warning where a
    linear model, trained on up to 5,000 rows, is better beyond chance by every metric, by ``worse`` = 0.05 of accuracy
    or a twentieth of the squared error, and by no less of what the model gets wrong than a fifth. A note where it is
    equal within a twentieth and both are wrong in one of twenty rows or more.

    ## How to fix
    See what ranks above it. Against a linear model: train longer or at another rate, scale the inputs.

    ## When to ignore
    When the model is not trained yet; when inputs say next to nothing of the target, as returns of tomorrow.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks: baselines, input-independent and human. McNemar 1947,
    doi:10.1007/BF02295996. Agresti and Min 2005, doi:10.1002/sim.1917.
    """
    if len(errors.table) < FEWEST:
        raise NotChecked(f"{len(errors.table)} rows are too few to tell a model from a baseline")
    same = [name for name in ("blind", *CONSTANTS) if name in baselines.names and equals(baselines, name, room)]
    if same:
        yield nothing(baselines, same)
    elif (linear := against_linear(baselines)) and is_worse(linear, worse):
        yield beaten(baselines, linear)
    elif linear and is_equal(linear, worse):
        yield equal(baselines, linear)


def found(baselines: Baselines, name: str) -> list[Versus]:
    """One baseline by each metric that it shares with the model."""
    return [one for metric in baselines.metrics if (one := baselines.of(name, metric)) is not None]


def equals(baselines: Baselines, name: str, room: float) -> bool:
    """Whether by no metric the model is better than a baseline, and could be seen to be if it were.

    A constant must not be beaten by what it does not answer either: the model's loss, if it is better than by prior.
    """
    every = [one for each in (name, *partners(name)) for one in found(baselines, each)]
    return not any(one.beaten for one in every) and all(ends(one, room) for one in every)


def partners(name: str) -> tuple[str, ...]:
    """What must be equal too: the commonest class has no loss, the mean is not made for absolute errors."""
    return {"majority": ("prior",), "prior": ("majority",), "mean": ("median",), "median": ("mean",)}.get(name, ())


def ends(one: Versus, room: float) -> bool:
    """Whether the interval of the gain ends under a share of what there is to gain over a baseline."""
    return one.gain_high < room * abs(BEST.get(one.metric, 0.0) - one.value)


def against_linear(baselines: Baselines) -> list[Versus]:
    """The linear model by the metrics that decide: not by loss, which early stopping and smoothing change."""
    return [one for one in found(baselines, "linear") if one.metric != "log loss"]


def wrong(one: Versus) -> float:
    """What the model gets wrong: the distance of its metric from the best."""
    return abs(BEST.get(one.metric, 0.0) - one.value) - one.gain


def is_worse(linear: list[Versus], worse: float) -> bool:
    """Whether a linear model is clearly better, and by a part of what the model gets wrong that matters."""
    size = [worse if one.metric in BEST else worse * wrong(one) for one in linear]
    clear = all(one.gain_high < 0 and -one.gain >= least for one, least in zip(linear, size, strict=True))
    return clear and all(-one.gain >= wrong(one) / 5 for one in linear)


def is_equal(linear: list[Versus], close: float) -> bool:
    """Whether a linear model does as well within a small margin, where something is left to gain."""
    left = [one for one in linear if wrong(one) >= close or one.metric not in BEST]
    margins = [close / 2 if one.metric in BEST else close * wrong(one) for one in linear]
    return len(left) == len(linear) and all(one.gain_high < margin for one, margin in zip(linear, margins, strict=True))


def nothing(baselines: Baselines, same: list[str]) -> Finding:
    """Answers that a constant equals."""
    metric = baselines.metrics[0]
    model = baselines.of("model", metric)
    other = baselines.of("blind" if "blind" in same else same[0], metric)
    assert model is not None
    assert other is not None
    blind = "blind" in same
    said = baselines.said[other.name]
    return Finding(
        message=f"The {metric} is {model.value:.4g}; {said}: {other.value:.4g} (the model is better by "
        f"{other.gain_low:.3g} to {other.gain_high:.3g}, {other.rows} rows).",
        cause="What the model says does not depend on the input in any way that helps."
        if blind
        else "The answers are related to the input, but a constant is worth as much by every metric: their scale, "
        "threshold or zero is wrong.",
        fix="dbg.overfit()   # if sixteen samples cannot be learned either, the fault is in the model or the loss",
        evidence=evidence(baselines, metric),
        explains=("E703", "E704", "E705"),
        severity=None if blind or "mean" in same else "warning",
    )


def beaten(baselines: Baselines, linear: list[Versus]) -> Finding:
    """A model that a linear one beats."""
    one = linear[0]
    return Finding(
        message=f"A linear model of the inputs, trained on {baselines.trained_on} rows, has {one.metric} "
        f"{one.value:.4g}, yours {one.value + gained(one):.4g}: worse by {-one.gain_high:.3g} to {-one.gain_low:.3g} "
        f"on {one.rows} rows.",
        cause="What a linear model finds in the inputs the network has not found: it was not trained for long enough, "
        "at a wrong rate, on inputs of a wrong scale, or cannot pass it on.",
        fix='errors.baselines().only["linear"]   # the rows that only the linear model gets right',
        evidence=evidence(baselines, one.metric),
        severity="warning",
    )


def equal(baselines: Baselines, linear: list[Versus]) -> Finding:
    """A model that a linear one equals."""
    one = linear[0]
    return Finding(
        message=f"A linear model of the inputs has {one.metric} {one.value:.4g}, yours {one.value + gained(one):.4g}: "
        f"no better than by {one.gain_high:.3g} ({one.rows} rows).",
        cause="What the network adds to a linear model does not show in these rows.",
        fix="errors.baselines()",
        evidence=evidence(baselines, one.metric),
        severity="note",
    )


def gained(one: Versus) -> float:
    """What to add to a baseline's metric to have that of the model."""
    return one.gain if one.metric in BEST else -one.gain


def evidence(baselines: Baselines, metric: str) -> dict[str, float | int]:
    """The metric of every answerer."""
    values = {one.name: one.value for one in baselines.versus if one.metric == metric}
    return {**values, "rows": baselines.rows, "training rows": baselines.trained_on}


def bad() -> Setup:
    """Labels drawn by lot."""
    data = rings(noise=1.0), rings(1024, noise=1.0, seed=1)
    return run(layers(8, 2, 2), *data, torch.nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Eight epochs."""
    train(setup, 8)


def good() -> Setup:
    """True labels."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
