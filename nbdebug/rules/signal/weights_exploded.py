"""G412: weights grow without bound, or a few of them dominate their layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location, Severity
from nbdebug.records import Record
from nbdebug.records.layer_signals import (
    Flags,
    LayerSignal,
    Values,
    describe_values,
    get_layer_signal,
    has_learned,
    layer_weights,
    module_of_parameter,
    zero_initialized,
)
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train
from nbdebug.setup import Setup

_MIN_LATE_GROWTH = 1.1  # minimum growth in the last quarter of the run
_DOMINANT_SHARE, _INITIAL_SHARE = (
    0.5,
    0.2,
)  # the largest weight as a share of the norm: reported above, and normal below at the start
_MIN_GROWTH_OF_LARGEST = 3.0
_SMALL_START = 0.5  # of the norm that the default initialization gives, which varies by chance


@rule("G412", "warning")
def weights_exploded(record: Record, setup: Setup | NotChecked, *, times: float = 10.0) -> Iterator[Finding]:
    """Weights grow without bound, or a few of them dominate their layer.

    ## What it does
    Follows the norm of the weights of each layer, and the largest weight in it, over your run.

    ## Why it matters
    Weights that keep growing follow a loss that is unbounded below, or a learning rate that overshoots; scores become
    extreme and finally not finite. A layer dominated by one weight responds to a single input.

    ## How it is measured
    Reported if the norm of a weight ends at more than ``times`` = 10 times that of the first snapshot and grew by a
    tenth in the last quarter of the run, or is not finite after it had grown. Also reported if the largest weight makes
    up half of the norm, which it did not at first, and is three times its initial size. Weights that started at zero
    are excluded, and so is growth of weights directly before a normalization, which makes their size irrelevant.
    Weights that started at less than half the size of torch's default initialization, such as those of a last layer
    with a standard deviation of 0.01, are compared with the norm that the default gives: the root of a third of their
    rows. If the loss has decreased by a third to a value above zero, both are notes.

    ## How to fix
    Use a loss that is bounded below and has the right sign, a lower learning rate, inputs of the same scale, or weight
    decay.

    ## When to ignore
    When the weights started far too small, and the loss decreases.

    ## References
    van Laarhoven 2017, arXiv:1706.05350: before a normalization the size of weights only sets the effective learning
    rate. The factor of ten is a choice.
    """
    sizes = get_layer_signal(record, "weight.norm", min_snapshots=3)
    started_at_zero, before_normalization = zero_initialized(record), _normalized_parameters(record)
    measured = set(sizes.names) - started_at_zero
    names = [name for name in layer_weights(record) if name in measured]
    sizes, largest = sizes.select(names), get_layer_signal(record, "weight.absmax", names, 0)
    is_not_normalized = np.array([name not in before_normalization for name in names], bool)
    is_growing = _keep_growing(sizes, times, _default_norms(setup, names)) & is_not_normalized
    is_dominated = _dominated_by_one_weight(sizes, largest) & ~is_growing
    severity: Severity | None = "note" if has_learned(record) else None
    if is_growing.any():
        yield replace(_growth_finding(sizes, is_growing, times), severity=severity)
    if is_dominated.any():
        yield replace(_dominant_weight_finding(sizes, largest, is_dominated), severity=severity)


def _normalized_parameters(record: Record) -> set[str]:
    """The parameters of layers that are followed by a normalization."""
    kinds = [module.kind for module in record.modules[1:]] + [""]
    return {
        name
        for module, after in zip(record.modules, kinds, strict=True)
        if "Norm" in after
        for name in module.parameters
    }


def _default_norms(setup: Setup | NotChecked, names: list[str]) -> Values:
    """Return the norms that torch's default initialization of linear layers and convolutions gives; 0 if unknown.

    The variance of a value is 1 / (3 fan-in), which makes a third for each row.
    """
    parameters = {} if isinstance(setup, NotChecked) else dict(setup.eager_model.named_parameters())
    shapes = [parameters[name].shape if name in parameters else () for name in names]
    return np.array([(shape[0] / 3) ** 0.5 if len(shape) > 1 else 0.0 for shape in shapes])


def _keep_growing(sizes: LayerSignal, factor: float, defaults: Values) -> Flags:
    first, last = sizes.values[0], sizes.values[-1]
    reference = np.where(first < _SMALL_START * defaults, defaults, first)
    earlier = sizes.values[max(0, int(np.searchsorted(sizes.steps, 0.75 * sizes.steps[-1])) - 1)]
    with np.errstate(all="ignore"):
        relative_growth = sizes.largest / first
        overflowed = ~np.isfinite(last) & (relative_growth > factor)
        return np.asarray(
            overflowed | (np.isfinite(last) & (last > factor * reference) & (last > _MIN_LATE_GROWTH * earlier))
        )


def _dominated_by_one_weight(sizes: LayerSignal, largest: LayerSignal) -> Flags:
    if len(largest.steps) != len(sizes.steps):
        return np.zeros(len(sizes.names), bool)
    is_measured, columns = (
        np.isfinite(largest.values),
        np.arange(len(sizes.names)),
    )  # large tensors are measured only in some snapshots
    first, last = is_measured.argmax(0), len(is_measured) - 1 - is_measured[::-1].argmax(0)
    with np.errstate(all="ignore"):
        shares = largest.values / sizes.values
        has_grown = largest.values[last, columns] > _MIN_GROWTH_OF_LARGEST * largest.values[first, columns]
        is_dominated = (shares[last, columns] > _DOMINANT_SHARE) & (shares[first, columns] < _INITIAL_SHARE) & has_grown
    return np.asarray(is_dominated & np.isfinite(sizes.values[-1]))


def _growth_finding(sizes: LayerSignal, is_growing: Flags, factor: float) -> Finding:
    names = [name for name, flag in zip(sizes.names, is_growing, strict=True) if flag]
    with np.errstate(all="ignore"):
        factors = sizes.largest / sizes.values[0]
    others = factors[~is_growing]
    comparison = (
        f"the median of the other layers is {np.median(others):.2g}" if len(others) else "all layers are affected"
    )
    is_finite = bool(np.isfinite(sizes.values[-1]).all())
    ending = f"{'grew until' if is_finite else 'are not finite at'} step {sizes.steps[-1]:,}, the last measured one"
    return Finding(
        message=f"The weights of {len(names)} of {len(factors)} layers grew to more than {factor:g} times their norm "
        f"at step {sizes.steps[0]:,}, and {ending}. The number in parentheses is the "
        f"largest norm divided by the first one: {describe_values(names, factors[is_growing])}; {comparison}.",
        where=Location(module_of_parameter(names[0]), names[0]),
        cause="Larger weights always reduce the loss, which has no minimum, or each step overshoots more than the "
        "previous one.",
        fix="Check the sign of the loss, then lower the learning rate, or train with weight_decay=0.01.",
        evidence={"parameters": names, "growth": factors[is_growing].tolist()}
        | {"first and last step": [int(sizes.steps[0]), int(sizes.steps[-1])]},
        explains=("G402", "T601", "T602", "T606"),
    )


def _dominant_weight_finding(sizes: LayerSignal, largest: LayerSignal, is_dominated: Flags) -> Finding:
    names = [name for name, flag in zip(sizes.names, is_dominated, strict=True) if flag]
    shares = largest.values[-1] / sizes.values[-1]
    others = shares[~is_dominated & ~np.isnan(shares)]
    comparison = f"{np.median(others):.2g} in the other layers" if len(others) else "less than a fifth at the start"
    return Finding(
        message=f"A single weight dominates in {len(names)} of {len(shares)} layers at the last measured step (its "
        f"absolute value divided by the norm of the tensor): {describe_values(names, shares[is_dominated])}; "
        f"{comparison}.",
        where=Location(module_of_parameter(names[0]), names[0]),
        cause="One input is far larger than the others, or a few steps were far too large.",
        fix="x = (x - x.mean(0)) / x.std(0)   # inputs of the same scale; or a lower learning rate",
        evidence={"parameters": names, "share": shares[is_dominated].tolist()},
        explains=("T606",),
    )


def _negated_loss(output: Tensor, target: Tensor) -> Tensor:
    return -nn.functional.cross_entropy(output, target)


def _train_loop(setup: Setup) -> None:
    train(setup, 75)


def bad() -> Setup:
    """A loss that decreases without bound."""
    return classifier(loss_fn=_negated_loss)


def good() -> Setup:
    """The same loss with the right sign."""
    return classifier()


bad_loop = good_loop = _train_loop
