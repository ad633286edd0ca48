"""G410: the steps are a large fraction of the weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import Looks, Values, from_zero, learned, looks, module_of, settled, told, weights
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

WHOLE = 0.5  # a step of half the weight, twice of which replaces it
LEAST_STEPS = 50
EARLY = 10  # steps within which a run that begins so is lost


@rule("G410", "error")
def update_too_large(record: Record, *, ratio: float = 0.1) -> Iterator[Finding]:
    """The steps are a large fraction of the weights: each few of them replace what was learned.

    ## What it does
    Compares each step of each weight with the size of that weight, over the whole run.

    ## Why it matters
    Weights that become others within ten steps keep nothing of what earlier batches taught them. ReLUs die, sigmoids
    are pinned, and the loss jumps and then rests at that of a constant answer.

    ## How it is measured
    By the true change at each look, momentum and Adam's scaling included. It speaks where the median over the second
    half of the run is over ``ratio`` = 0.1, or single steps were over half of the weight while the loss rose with them;
    in both cases only if the loss has not fallen by a third since the beginning. Weights that
    began at zero take large steps by right, at which the loss falls. Biases, norms and embeddings are left out.

    ## How to fix
    A rate lower by the factor that brings the steps to about 1e-3; a warm-up; clipping, where single steps are meant.

    ## When to ignore
    When the weights come right before a normalization that makes their size irrelevant, and the loss falls.

    ## References
    Karpathy, CS231n notes 3: the ratio of updates to weights should be near 1e-3. Ten steps to replace a weight (0.1)
    is a choice.
    """
    found = looks(record, "update.ratio", least=2, most=record.layers.most)
    fit = {name for name, largest in zip(found.places, found.largest, strict=True) if np.isfinite(largest)}
    steps = found.at([name for name in weights(record) if name in fit])
    steps.values[np.isinf(steps.values)] = np.nan  # of weights that are not finite any more, which others speak of
    if not steps.places:
        raise NotChecked("no weight took a step that is finite")
    lasting, largest = lasting_of(record, steps), steps.largest
    large = [i for i in range(len(steps.places)) if lasting[i] > ratio or largest[i] > WHOLE]
    if large and not learned(record) and (np.nanmax(lasting, initial=0.0) > ratio or jumped(record, steps)):
        yield finding(steps, lasting, largest, large)


def lasting_of(record: Record, steps: Looks) -> Values:
    """The median over the second half of the run; NaN for weights that began at zero, and while a run is young."""
    new = from_zero(record)
    known = settled(record) and record.steps >= LEAST_STEPS
    fit = np.array([known and name not in new for name in steps.places], bool)
    return np.where(fit, steps.late.median, np.nan)


def jumped(record: Record, steps: Looks) -> bool:
    """Whether the loss was far higher right after the largest step than before it, or not finite since."""
    at = int(steps.steps[np.unravel_index(np.nanargmax(steps.values), steps.values.shape)[0]])
    when, losses = record.series("loss")
    before, after = losses[when <= at][-EARLY:], losses[when > at][:EARLY]
    if not len(before) or not len(after):
        return False
    return not np.isfinite(losses[-1]) or float(np.max(np.abs(after))) > 2 * abs(float(np.median(before)))


def finding(steps: Looks, lasting: Values, largest: Values, large: list[int]) -> Finding:
    """The places that take large steps, and what the others do."""
    names = [steps.places[i] for i in large]
    sizes = np.array([lasting[i] if lasting[i] > 0.1 else largest[i] for i in large])
    worst = int(np.argmax(sizes))
    at = int(steps.steps[np.nanargmax(steps.values[:, large[worst]])])
    rest = np.delete(steps.late.median, large)
    others = float(np.median(rest)) if len(rest) else float("nan")
    beside = f"the median of the other layers is {others:.2g}" if len(rest) else "as do all layers"
    factor = 10 ** round(np.log10(1e-3 / min(max(sizes), 1e3)))
    return Finding(
        message=f"{len(large)} of {len(steps.places)} weights take steps as large as a good part of themselves: "
        f"{told(names, sizes)} of their size; {beside}; expected about 0.001.",
        where=Where(module_of(names[worst]), names[worst], step=at),
        cause="The learning rate is far too high for these weights, or one gradient was far too large.",
        fix=f"for group in optimizer.param_groups:\n    group['lr'] *= {factor:g}",
        evidence={"parameters": names, "ratio": sizes.tolist(), "median of the others": others, "step": at},
        explains=("G401", "G402", "G412", "T602", "T604", "T605", "T607"),
    )


def trained_at(rate: float) -> Setup:
    """A network of tanhs under Adam at a rate."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)]
        model = nn.Sequential(*layers)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters(), rate),))


def loop(setup: Setup) -> None:
    """A plain loop of sixty steps."""
    train(setup, 15)


def bad() -> Setup:
    """A rate of three."""
    return trained_at(3.0)


def good() -> Setup:
    """A usual rate."""
    return trained_at(1e-2)


bad_loop = good_loop = loop
