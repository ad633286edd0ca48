"""D128: weights of a sampler that do not belong to the samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.sampler_weights import SamplerWeights
from nbdebug.measurements.visited_samples import VisitedSamples
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.weight_lines import few_weights_line, sampler_weights_line
from nbdebug.source.location import get_location

WEIGHTED_FIX = (
    "sampler = WeightedRandomSampler((1 / torch.bincount(labels).float())[labels], num_samples=len(labels))"
    "   # labels: one for each training sample"
)
UNSAMPLED_FIX = "train_loader = DataLoader(dataset, batch_size=32, shuffle=True)   # without a sampler"
_Numbers = dict[str, Any]
_MIN_MISPLACED, _MIN_MISPLACED_SHARE, _TOLERANCE, _SIGMAS = 5, 0.01, 0.05, 4.0


@rule("D128", "warning", origin="loader")
def sampler_weights(
    setup: Setup,
    sampler_weights: SamplerWeights,
    visited_samples: VisitedSamples | NotChecked,
    *,
    ratio: float = 1.5,
) -> Iterator[Finding]:
    """The weights of the sampler do not belong to the samples.

    ## What it does
    Compares the weights of a ``WeightedRandomSampler`` with the classes of random samples of its dataset.

    ## Why it matters
    The sampler does the opposite of what it is for, or draws at random, and nothing raises: weights that are the class
    counts instead of their inverse make rare classes rarer, and weights in another order than the samples, as after a
    shuffle or from another split, balance nothing.

    ## How it is measured
    Three faults are reported: a number of weights other than that of samples, unless D107 or D127 reports that the
    sampler leaves out most samples; a mean weight of a class that is more than ``ratio`` times that of a rarer one; and
    inverse class counts in the wrong places. Weights are inverse class counts if each value is as frequent as a class.
    They are in the wrong places if samples of one class have several values. Classes count as different in frequency if
    three standard deviations of the counts separate them.

    ## How to fix
    Compute one weight for each sample, in the order of the dataset, from the inverse count of its class.

    ## When to ignore
    When the common class is drawn more often on purpose.

    ## References
    Documentation of torch.utils.data.WeightedRandomSampler.
    """
    weights, labels = sampler_weights.weights, sampler_weights.labels
    message, cause, rises = "", "", False
    numbers: _Numbers = {}
    has_few_weights = len(weights) < sampler_weights.samples
    if has_few_weights and isinstance(visited_samples, VisitedSamples) and visited_samples.leaves_out_most():
        return
    line = few_weights_line(setup) if has_few_weights else None
    if len(weights) != sampler_weights.samples:
        message = f"The sampler has {len(weights):,} weights for {sampler_weights.samples:,} samples."
        cause = "It draws the indices below the number of its weights, each of which belongs to one sample."
    elif len(np.unique(labels)) > 1:
        own = weights[sampler_weights.rows]
        message, numbers = _describe_inversion(own, labels, ratio)
        cause = "The weights grow with the counts of the classes; they should be the inverse counts."
        rises = bool(message)
        if not message:
            message, numbers = _describe_order(weights, own, labels)
            cause = "The weights are in another order than the samples, or belong to the labels of another split."
    if message:
        yield Finding(
            message=message,
            where=get_location(line or sampler_weights_line(setup, rises=rises) or origin_line(setup, "loader")),
            cause=cause,
            fix=WEIGHTED_FIX,
            setup_fix="balanced sampler",
            evidence={"weights": len(weights), "samples": sampler_weights.samples, "read": len(labels), **numbers},
            explains=("D106", "D110", "E702", "E703", "E706", "E709", "T607"),
        )


def few_weights_cause(sampler: object, samples: int) -> str:
    """Return the cause of samples that a sampler never draws, since it has fewer weights than samples; "" if not."""
    weights = sampler.weights if isinstance(sampler, WeightedRandomSampler) else None
    if weights is None or len(weights) >= samples:
        return ""
    return f"The sampler has {len(weights):,} weights, which apply only to the first samples. It needs one per sample."


def _describe_inversion(own: NDArray[np.float64], labels: NDArray[np.int64], ratio: float) -> tuple[str, _Numbers]:
    """Return how much more weight samples of a more common class have than those of a rarer one; "" if none do."""
    classes, counts = np.unique(labels, return_counts=True)
    means = [max(float(own[labels == label].mean()), 1e-12) for label in classes]
    pairs = [
        (means[common] / means[rare], common, rare)
        for common, rare in permutations(range(len(classes)), 2)
        if counts[rare] + 3 * counts[rare] ** 0.5 < counts[common]
    ]
    factor, common, rare = max(pairs, default=(0.0, 0, 0))
    if factor <= ratio:
        return "", {}
    message = (
        f"A sample of class {classes[common]}, which {counts[common]:,} of {len(labels):,} samples have, is drawn "
        f"{factor:.3g} times as often as one of class {classes[rare]}, which {counts[rare]:,} have."
    )
    counted = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    return message, {"counts": counted, "weight of common over rare": factor}


def _describe_order(
    weights: NDArray[np.float64], own: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[str, _Numbers]:
    """Return how many samples have the weight of another class; "" unless the weights are inverse class counts."""
    classes, counts = np.unique(labels, return_counts=True)
    values, frequencies = np.unique(weights, return_counts=True)
    if len(values) != len(classes):
        return "", {}
    products, shares = values * frequencies, np.sort(counts) / len(labels)
    error = _SIGMAS * np.sqrt(shares * (1 - shares) / len(labels))
    is_inverse = products.max() <= (1 + _TOLERANCE) * products.min()
    if not is_inverse or (np.abs(np.sort(frequencies) / len(weights) - shares) > error).any():
        return "", {}
    fitting = [np.unique(own[labels == label], return_counts=True)[1].max() for label in classes]
    misplaced = len(labels) - int(np.sum(fitting))
    if misplaced < max(_MIN_MISPLACED, _MIN_MISPLACED_SHARE * len(labels)):
        return "", {}
    message = (
        f"The weights are inverse class counts, but {misplaced:,} of {len(labels):,} samples have the weight of "
        "another class."
    )
    return message, {"misplaced": misplaced}


def _setup_with_weights(power: float) -> Setup:
    """400 points, one in ten of the second class, drawn with a power of the class counts as weights."""
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    y: Tensor = (torch.arange(400) % 10 == 0).long()
    weights = torch.bincount(y).double()[y] ** power
    sampler = WeightedRandomSampler(weights.tolist(), 400, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(x + 2 * y[:, None], y), 16, sampler=sampler)
    return Setup(network(2), loader, loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """The weights are the class counts."""
    return _setup_with_weights(1.0)


def good() -> Setup:
    """The weights are the inverse class counts."""
    return _setup_with_weights(-1.0)
