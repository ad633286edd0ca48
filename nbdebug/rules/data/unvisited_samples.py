"""D127: a training loader that leaves most of its dataset out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, Sampler, SubsetRandomSampler, TensorDataset

from nbdebug.finding import Finding
from nbdebug.measurements.visited_samples import REPEATED, VisitedSamples
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.data.sampler_weights import UNSAMPLED_FIX, WEIGHTED_FIX, few_weights_cause
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup


@rule("D127", "warning", origin="loader")
def unvisited_samples(setup: Setup, visited_samples: VisitedSamples, *, share: float = 0.5) -> Iterator[Finding]:
    """The training loader leaves out most of the samples of its dataset.

    ## What it does
    Goes through the indices of the samplers of both loaders for one epoch, without reading samples, and counts the
    samples of the training dataset that neither visits.

    ## Why it matters
    The model learns from a small part of the data, while the size of the dataset suggests otherwise. In the loss curve,
    a limit left from debugging or a sampler over batches instead of samples looks like a hard task. With so few
    samples, the other checks of the data have nothing to measure.

    ## How it is measured
    Exactly, in datasets of at least 50 samples. It is reported if one epoch visits less than a ``share`` of half of the
    samples that the validation loader leaves. A sampler that draws other samples in each epoch is not reported: two
    epochs are compared. It is a note for a list of indices and for a sampler class of your own. A sampler that visits
    the same few samples twice or more in an epoch is D107 instead.

    ## How to fix
    Remove the sampler or its limit. To train on a part of the data on purpose, use
    ``torch.utils.data.Subset``.

    ## When to ignore
    When the other samples are kept for another purpose, such as a test split.

    ## References
    Documentation of torch.utils.data: samplers.
    """
    if visited_samples.leaves_out_most(share) and visited_samples.repeats < REPEATED:
        yield _finding(setup.train_loader, visited_samples)


def _chooses_on_purpose(loader: DataLoader[Any]) -> bool:
    """Return whether the user listed the indices, as for a fold, or wrote the sampler, as for a curriculum."""
    is_own = isinstance(loader.sampler, Sampler) and not type(loader.sampler).__module__.startswith("torch.")
    return is_own or isinstance(loader.sampler, SubsetRandomSampler)


def _finding(loader: DataLoader[Any], visited: VisitedSamples) -> Finding:
    sampler = type(loader.sampler).__name__
    few_weights = few_weights_cause(loader.sampler, visited.samples)
    return Finding(
        message=f"The training loader visits {visited.distinct:,} of the {visited.samples:,} samples of its dataset in "
        f"an epoch; its sampler is {sampler}.",
        cause=few_weights or "The sampler leaves out the other samples.",
        fix=WEIGHTED_FIX if few_weights else UNSAMPLED_FIX,
        setup_fix="balanced sampler" if few_weights else "shuffled batches",
        evidence={"visited": visited.distinct, "samples": visited.samples, "sampler": sampler},
        explains=("T609", "T610", "E709", "E702", "D106", "D119", "T607", "D128"),
        severity="note" if _chooses_on_purpose(loader) else None,
    )


def _setup_with_sampler(visited: int) -> Setup:
    """Points of which the loader visits the first ``visited``."""
    x, y = points()
    loader = DataLoader(TensorDataset(x, y), 4, sampler=range(visited))
    return Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """The sampler stops after eight of sixty-four samples."""
    return _setup_with_sampler(8)


def good() -> Setup:
    """The sampler visits all samples."""
    return _setup_with_sampler(64)
