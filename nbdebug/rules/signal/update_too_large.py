"""G410: steps are a large fraction of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
from nbdebug.rules.examples import minimal_setup, points, train
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import rate_factor_fix
from nbdebug.setup.source_lines import learning_rate_line
from nbdebug.source.location import add_line

_LARGE_STEP, _MIN_LARGE_STEPS = 0.1, 3  # a hundred times the usual ratio, in more snapshots than one gradient causes
_LARGE_SINGLE_STEP = 0.5  # two steps of half the weight replace it
_MIN_STEPS = 50
_LOSS_WINDOW = 10  # steps before and after a jump of the loss


@rule("G410", "error")
def update_too_large(setup: Setup, record: Record, *, ratio: float = 0.1) -> Iterator[Finding]:
    """Steps are a large fraction of the weights: a few of them replace what was learned.

    ## What it does
    Compares each step of each weight with the size of that weight, over the whole run.

    ## Why it matters
    Weights that are replaced within ten steps keep nothing of what earlier batches taught them. ReLUs die, sigmoids
    saturate, and the loss jumps and then stays at that of a constant prediction.

    ## How it is measured
    By the actual change in each snapshot, including momentum and Adam's scaling, divided by the norm of the weight
    after the step, so that it can hardly exceed 1. Reported if the median over the second
    half of the run is above ``ratio`` = 0.1, or if single steps were above half of the weight while the loss rose with
    them; in both cases only if the loss has not decreased by a third since the start. Weights that started at zero take
    large steps by design, while the loss decreases. Biases, normalization weights and embeddings are excluded.

    ## How to fix
    Reduce the learning rate by the factor that brings the steps to about 1e-3; use a warm-up; use clipping against
    single large steps.

    ## When to ignore
    When the weights come directly before a normalization that makes their size irrelevant, and the loss decreases.

    ## References
    Karpathy, CS231n notes 3: the ratio of updates to weights should be near 1e-3. Ten steps to replace a weight (0.1)
    is a choice.
    """
    ratios = get_layer_signal(record, "update.ratio", min_snapshots=2, max_snapshots=record.layers.max_rows)
    finite_names = {name for name, largest in zip(ratios.names, ratios.largest, strict=True) if np.isfinite(largest)}
    steps = ratios.select([name for name in layer_weights(record) if name in finite_names])
    steps.values[np.isinf(steps.values)] = np.nan  # weights that are not finite any more, which other rules report
    if not steps.names:
        raise NotChecked("no weight has finite updates")
    lasting_ratios, largest = _late_medians(record, steps), steps.largest
    over_limit = [i for i in range(len(steps.names)) if lasting_ratios[i] > ratio or largest[i] > _LARGE_SINGLE_STEP]
    if (
        over_limit
        and not has_learned(record)
        and (np.nanmax(lasting_ratios, initial=0.0) > ratio or _loss_jumped(record, steps))
    ):
        is_lasting = bool(np.all(lasting_ratios[over_limit] > ratio))
        finding = _finding(
            setup, steps, (lasting_ratios if is_lasting else largest)[over_limit], over_limit, is_lasting
        )
        line = learning_rate_line(setup, float(record.series("lr")[1].max(initial=0.0)))
        yield replace(finding, where=add_line(finding.where, line)) if line else finding


def _late_medians(record: Record, steps: LayerSignal) -> Values:
    """The median over the second half of the run; NaN for weights that started at zero and in a young run."""
    started_at_zero = zero_initialized(record)
    is_long_enough = is_settled(record) and record.steps >= _MIN_STEPS
    applies = np.array([is_long_enough and name not in started_at_zero for name in steps.names], bool)
    return np.where(applies, steps.second_half.median, np.nan)


def _loss_jumped(record: Record, steps: LayerSignal) -> bool:
    """Return whether the loss was much higher after the largest step than before it, or is not finite since."""
    jump_step = int(steps.steps[np.unravel_index(np.nanargmax(steps.values), steps.values.shape)[0]])
    loss_steps, losses = record.series("loss")
    losses_before, losses_after = (
        losses[loss_steps <= jump_step][-_LOSS_WINDOW:],
        losses[loss_steps > jump_step][:_LOSS_WINDOW],
    )
    if not len(losses_before) or not len(losses_after):
        return False
    if np.nanmin(losses_before) < 0:  # a reward or a log density has no level of which a rise could be a multiple
        return not np.isfinite(losses[-1])
    return not np.isfinite(losses[-1]) or float(np.max(np.abs(losses_after))) > 2 * abs(float(np.median(losses_before)))


def _finding(setup: Setup, steps: LayerSignal, sizes: Values, over_limit: list[int], is_lasting: bool) -> Finding:
    names = [steps.names[i] for i in over_limit]
    worst_index = int(np.argmax(sizes))
    worst_step = int(steps.steps[np.nanargmax(steps.values[:, over_limit[worst_index]])])
    other_ratios = np.delete(steps.second_half.median, over_limit)
    others = float(np.median(other_ratios)) if len(other_ratios) else float("nan")
    comparison = f"the median of the other layers is {others:.2g}" if len(other_ratios) else "all layers are affected"
    factor = 10 ** round(np.log10(1e-3 / min(max(sizes), 1e3)))
    large_steps = int((np.nan_to_num(steps.values[:, over_limit]) > _LARGE_STEP).any(1).sum())
    basis = "median of the second half" if is_lasting else "largest"
    return Finding(
        message=f"The ratio of update norm to weight norm after the step is too large in {len(over_limit)} of "
        f"{len(steps.names)} weight tensors ({basis} of the run): {describe_values(names, sizes)}; {comparison}; about "
        "0.001 is usual.",
        where=Location(module_of_parameter(names[worst_index]), names[worst_index], step=worst_step),
        cause="The learning rate is far too high for these weights."
        if is_lasting or large_steps >= _MIN_LARGE_STEPS
        else "Either the learning rate is far too high for these weights, or the gradient of this step was far larger "
        "than the others.",
        fix=rate_factor_fix(setup, factor),
        evidence={
            "parameters": names,
            "ratio": sizes.tolist(),
            "median of the others": others,
            "usual": 0.001,
            "step": worst_step,
        },
        explains=("G401", "G402", "G412", "T602", "T604", "T605", "T607"),
    )


def _adam_setup(rate: float) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)]
        model = nn.Sequential(*layers)
    return minimal_setup(
        model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters(), rate),)
    )


def _train_loop(setup: Setup) -> None:
    train(setup, 15)


def bad() -> Setup:
    """A learning rate of three."""
    return _adam_setup(3.0)


def good() -> Setup:
    """A usual learning rate."""
    return _adam_setup(1e-2)


bad_loop = good_loop = _train_loop
