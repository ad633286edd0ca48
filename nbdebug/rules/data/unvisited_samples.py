"""D127: a training loader that leaves most of its dataset out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, Sampler, SubsetRandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.setup.loaders import dataset_length, get_visited_indices, is_map_style

_MIN_SAMPLES = 50


@rule("D127", "warning", origin="loader")
def unvisited_samples(setup: Setup, *, share: float = 0.5) -> Iterator[Finding]:
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
    epochs are compared. It is a note for a list of indices and for a sampler class of your own.

    ## How to fix
    Remove the sampler or its limit. To train on a part of the data on purpose, use
    ``torch.utils.data.Subset``.

    ## When to ignore
    When the other samples are kept for another purpose, such as a test split.

    ## References
    Documentation of torch.utils.data: samplers.
    """
    loader, samples = setup.train_loader, dataset_length(setup.train_loader)
    if samples is None or not is_map_style(loader):
        raise NotChecked("the samples of the training loader cannot be counted")
    visited = set(get_visited_indices(loader))
    validation = _validation_indices(setup)
    remaining = samples - len(validation - visited)
    if samples < _MIN_SAMPLES or len(visited) >= share * remaining or isinstance(loader.sampler, DistributedSampler):
        return
    if len(visited | set(get_visited_indices(loader))) > 1.2 * len(visited):
        return  # each epoch draws other samples
    yield _finding(loader, len(visited), samples, "note" if _chooses_on_purpose(loader) else None)


def _validation_indices(setup: Setup) -> set[int]:
    """Return the indices that the validation loader visits in the dataset of the training loader."""
    loader = setup.val_loader
    if not is_map_style(loader) or loader.dataset is not setup.train_loader.dataset:
        return set()
    return set(get_visited_indices(loader))


def _chooses_on_purpose(loader: DataLoader[Any]) -> bool:
    """Return whether the user listed the indices, as for a fold, or wrote the sampler, as for a curriculum."""
    is_own = isinstance(loader.sampler, Sampler) and not type(loader.sampler).__module__.startswith("torch.")
    return is_own or isinstance(loader.sampler, SubsetRandomSampler)


def _finding(loader: DataLoader[Any], visited: int, samples: int, severity: Severity | None) -> Finding:
    sampler = type(loader.sampler).__name__
    return Finding(
        message=f"The training loader visits {visited:,} of the {samples:,} samples of its dataset in an epoch; its "
        f"sampler is {sampler}.",
        cause="The sampler leaves out the other samples.",
        fix="train_loader = DataLoader(dataset, batch_size=32, shuffle=True)   # without a sampler",
        evidence={"visited": visited, "samples": samples, "sampler": sampler},
        explains=("T609", "T610", "E709", "E702", "D106", "D119", "T607"),
        severity=severity,
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
