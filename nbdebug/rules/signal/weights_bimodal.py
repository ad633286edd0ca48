"""G413: the weights of a layer form two separate populations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.records import Record
from nbdebug.records.layer_signals import layer_weights, module_of_parameter, value_counts
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.tensors.histogram_bins import ZERO_BIN, bin_edges, bin_shares

_MIN_POPULATION_SHARE = 0.1  # minimum share of the smaller population
_MAX_VALLEY = 0.15  # maximum height of the valley, as a share of the lower peak
_MIN_WEIGHTS = 256
_MAX_MIDDLE_SHARE = 0.01  # maximum share of the weights in the middle
_MIN_PEAK_DISTANCE = 4  # minimum number of bins between the peaks: two octaves


@rule("G413", "note")
def weights_bimodal(
    record: Record, *, fewest: float = _MIN_POPULATION_SHARE, valley: float = _MAX_VALLEY
) -> Iterator[Finding]:
    """The weights of a layer form two separate populations.

    ## What it does
    Inspects the last histogram of the absolute values of each weight.

    ## Why it matters
    A part of a layer on a different scale than the rest often consists of dead units, rows that no sample reaches, or
    inputs that were never scaled. It may also be intended, so this is a note.

    ## How it is measured
    On a logarithmic scale with two bins per octave. Reported are two peaks at least two octaves apart, each with
    ``fewest`` = 10% of the weights on its side of the valley, which is lower than ``valley`` = 15% of the lower peak;
    and positive and negative weights with almost none between them, such as binarized weights. Zeros are not counted,
    and neither are weights that already had two populations in their first histogram.

    ## How to fix
    Check which rows or columns contain the small values, and whether their inputs are constant or their units dead.

    ## When to ignore
    When weights are pruned, made sparse or binarized on purpose.

    ## References
    Hartigan and Hartigan 1985, The dip test of unimodality: the idea of a valley between two peaks. The shares are a
    choice.
    """
    recorded = [name for name in layer_weights(record) if f"weight|{name}" in record.histogram_names]
    names = [
        name for name, count in zip(recorded, value_counts(record, recorded), strict=True) if count >= _MIN_WEIGHTS
    ]
    if not names or len(record.shapes.steps) < 2:
        raise NotChecked(f"needs two histograms of a tensor with at least {_MIN_WEIGHTS} weights")
    for name in names:
        first, last = (_find_populations(histogram, fewest, valley) for histogram in _signed_histograms(record, name))
        if last is not None and first is None:
            yield _finding(name, last, record.shapes.steps[-1])


@dataclass(frozen=True)
class TwoPopulations:
    """Two populations: the position of each as text, and the share of the first."""

    first: str
    second: str
    share: float


def _signed_histograms(record: Record, name: str) -> list[NDArray[np.float64]]:
    """The first and the last histogram of a weight: negative and positive values, by increasing size."""
    column = record.histogram_names.index(f"weight|{name}")
    histograms = [bin_shares(record.shapes.row(row)[column]) for row in (0, len(record.shapes.rows) - 1)]
    return [np.stack([histogram[:ZERO_BIN][::-1], histogram[ZERO_BIN + 1 :]]) for histogram in histograms]


def _find_populations(histogram: NDArray[np.float64], fewest: float, valley: float) -> TwoPopulations | None:
    if histogram.sum() < 0.5:
        return None
    shares_by_size = histogram.sum(0) / histogram.sum()
    return _populations_by_size(shares_by_size, fewest, valley) or _populations_by_sign(
        shares_by_size, histogram.sum(1) / histogram.sum(), fewest
    )


def _populations_by_size(shares_by_size: NDArray[np.float64], fewest: float, valley: float) -> TwoPopulations | None:
    smoothed, cumulative = np.convolve(shares_by_size, [0.25, 0.5, 0.25], "same"), np.cumsum(shares_by_size)
    for valley_bin in np.flatnonzero((cumulative >= fewest) & (cumulative <= 1 - fewest)):
        lower_peak, upper_peak = (
            int(np.argmax(smoothed[: valley_bin + 1])),
            int(valley_bin + np.argmax(smoothed[valley_bin:])),
        )
        if upper_peak - lower_peak >= _MIN_PEAK_DISTANCE and smoothed[valley_bin] < valley * min(
            smoothed[lower_peak], smoothed[upper_peak]
        ):
            return TwoPopulations(
                f"±{bin_edges()[lower_peak]:.2g}", f"±{bin_edges()[upper_peak]:.2g}", float(cumulative[valley_bin])
            )
    return None


def _populations_by_sign(
    shares_by_size: NDArray[np.float64], sign_shares: NDArray[np.float64], fewest: float
) -> TwoPopulations | None:
    peak = int(np.argmax(shares_by_size))
    if sign_shares.min() < fewest or shares_by_size[: max(peak - _MIN_PEAK_DISTANCE, 0)].sum() > _MAX_MIDDLE_SHARE:
        return None
    return TwoPopulations(f"-{bin_edges()[peak]:.2g}", f"+{bin_edges()[peak]:.2g}", float(sign_shares[0]))


def _finding(name: str, populations: TwoPopulations, step: int) -> Finding:
    return Finding(
        message=f"At step {step:,}, the weights of {name} form two populations: about {populations.share:.0%} are near "
        f"{populations.first}, the others near {populations.second}, and almost none lie between them.",
        where=Location(module_of_parameter(name), name, step=step),
        cause="The histogram alone does not show the cause. Possible causes are rows or columns that only decay, "
        "inputs that differ in scale, and clamped weights.",
        fix="(weight.abs() < bound).float().mean(0)   # bound: between the two; mean(0) shows which inputs, mean(1) "
        "which units",
        evidence={
            "parameter": name,
            "first": populations.first,
            "second": populations.second,
            "share of the first": populations.share,
        },
    )


def bad() -> Setup:
    """A hidden layer of sixty-four units."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3))
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


good = bad


def bad_loop(setup: Setup) -> None:
    """Halve every second column of the first layer at each step."""
    for x, y in [*setup.train_loader] * 20:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
        with torch.no_grad():
            setup.model.get_parameter("0.weight")[:, ::2] *= 0.5


def good_loop(setup: Setup) -> None:
    """Train with a plain loop."""
    for x, y in [*setup.train_loader] * 20:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
