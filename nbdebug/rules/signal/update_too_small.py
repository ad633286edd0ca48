"""G409: steps are a tiny fraction of the weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.records import Record
from nbdebug.records.layer_signals import (
    LayerSignal,
    Values,
    describe_values,
    get_layer_signal,
    has_learned,
    is_settled,
    layer_weights,
    module_of_parameter,
    zero_initialized,
)
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import rate_factor_fix

_LAG_FACTOR = 1000.0
_QUANTILE = 0.9  # of the steps of a tensor: a single large step does not hide that the others are small


@rule("G409", "warning")
def update_too_small(
    record: Record, setup: Setup | NotChecked, *, ratio: float = 1e-5, least: int = 30
) -> Iterator[Finding]:
    """Steps are so small compared with the weights that training hardly changes them.

    ## What it does
    Compares each step of each weight with the size of that weight, over the whole run.

    ## Why it matters
    At the usual 1e-3 per step, weights can be replaced within a thousand steps; at 1e-6 this takes a million. The loss
    is flat, which looks like a model that cannot learn.

    ## How it is measured
    By the actual change in each snapshot, including momentum, Adam's scaling and decay. All layers are reported if none
    of them ever (in nine tenths of the snapshots) changed by more than ``ratio`` = 1e-5 of its size per step; single
    layers are reported if they change a thousand times less than the median of the others and less than a tenth of that
    ratio. At least ``least`` = 30 steps are needed, a hundred while the run continues. Nothing is reported if the loss
    has decreased anyway, or if the learning rate still rises; weights without steps, biases, normalization weights,
    embeddings and weights that started at zero are excluded, and the end of a schedule does not count.

    ## How to fix
    Use a higher learning rate: 1e-3 for Adam and 0.1 for SGD are good starting points; use the same rate for all
    groups.

    ## When to ignore
    When a part is meant to change this little.

    ## References
    Karpathy, CS231n notes 3: the ratio of updates to weights should be near 1e-3. A fixed bound for all layers, such as
    1e-8 in older tools, only detects layers that do not change at all.
    """
    if record.steps < least:
        raise NotChecked(f"only {record.steps} steps were recorded; at least {least} are needed")
    if not is_settled(record):
        raise NotChecked("the run is too short, or its learning rate still rises")
    relative_steps = _changing_weights(record)
    largest = relative_steps.quantile(_QUANTILE)
    others = np.array(
        [np.median(np.delete(largest, index)) if len(largest) > 1 else 0.0 for index in range(len(largest))]
    )
    some_change = np.max(largest) > ratio
    too_small = np.flatnonzero(
        (largest <= ratio / 10) & (largest * _LAG_FACTOR <= others) if some_change else largest <= ratio
    ).tolist()
    if len(too_small) == len(largest) and has_learned(record, 0.9):
        return
    if too_small:
        yield _finding(setup, relative_steps.names, largest, too_small)


def _changing_weights(record: Record) -> LayerSignal:
    """The relative steps of the weights that change. Raises NotChecked if there are none."""
    ratios = get_layer_signal(record, "update.ratio")
    measured = set(ratios.names) - zero_initialized(record)
    names = [name for name in layer_weights(record) if name in measured]
    selected = ratios.select(names)
    changing = [
        name
        for name, ratio in zip(names, selected.quantile(_QUANTILE), strict=True)
        if np.isfinite(ratio) and ratio > 0
    ]
    if not changing:
        raise NotChecked("no weight has finite updates (weights that start at zero do not count)")
    return ratios.select(changing)


def _finding(setup: Setup | NotChecked, parameters: tuple[str, ...], largest: Values, too_small: list[int]) -> Finding:
    names, is_all = [parameters[i] for i in too_small], len(too_small) == len(parameters)
    others = float(np.median(np.delete(largest, too_small))) if not is_all else float("nan")
    comparison = "All layers are affected" if is_all else f"The median of the other layers is {others:.2g}"
    factor = 10 ** round(-3 - np.log10(largest[too_small].max()))
    return Finding(
        message=f"The ratio of update norm to weight norm is too small in {len(too_small)} of {len(parameters)} weight "
        f"tensors ({_QUANTILE:g}-quantile of the run): {describe_values(names, largest[too_small])}. {comparison}; "
        "about 0.001 is usual.",
        where=Location(module_of_parameter(names[0]), names[0]),
        cause="The learning rate is orders of magnitude too low for these gradients."
        if is_all
        else _cause_of_part(setup, names),
        fix=rate_factor_fix(setup, factor, {*parameters} - {*names}),
        evidence={
            "parameters": names,
            "ratio": largest[too_small].tolist(),
            "quantile": _QUANTILE,
            "median of the others": others,
            "usual": 0.001,
        },
        explains=("T601", "T606", "T607", "T608", "T610", "T614"),
    )


def _cause_of_part(setup: Setup | NotChecked, names: list[str]) -> str:
    """Return whether the learning rate or the gradient of some weights is much smaller than that of the others."""
    if isinstance(setup, NotChecked):
        return "Their parameter group has a far lower learning rate, or almost no gradient reaches them."
    ids = {id(parameter) for name, parameter in setup.eager_model.named_parameters() if name in names}
    rates: tuple[list[float], list[float]] = ([], [])
    for group in (group for optimizer in setup.optimizers for group in optimizer.param_groups):
        rates[any(id(parameter) in ids for parameter in group["params"])].append(float(group["lr"]))
    others, own = rates
    if own and others and max(own) < 0.1 * max(others):
        return (
            f"The learning rate of their parameter group is {max(own):.3g}; that of another group is {max(others):.3g}."
        )
    return "Almost no gradient reaches them, or their values are far larger than those of the other layers."


def _adam_setup(rate: float) -> Setup:
    model = network(3)
    return minimal_setup(
        model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters(), rate),)
    )


def _train_loop(setup: Setup) -> None:
    train(setup, 15)


def bad() -> Setup:
    """A learning rate of 1e-7."""
    return _adam_setup(1e-7)


def good() -> Setup:
    """A usual learning rate."""
    return _adam_setup(1e-2)


bad_loop = good_loop = _train_loop
