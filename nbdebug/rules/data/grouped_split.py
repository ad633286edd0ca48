"""D124: samples of one source in both splits."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from nbdebug.finding import Finding
from nbdebug.measurements.neighbor_similarity import NeighborSimilarity
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.setup.split_lines import locate_ungrouped_split, splitting_line
from nbdebug.source.location import SourceLine

_FIX = (
    "groups = torch.arange(len(data)) // 50   # the recording, person or document of each sample\n"
    "train_rows, val_rows = next(GroupShuffleSplit(test_size=0.2).split(x, y, groups))   # scikit-learn"
)


@rule("D124", "note", origin="validation")
def grouped_split(setup: Setup, neighbor_similarity: NeighborSimilarity, *, rank: float = 0.25) -> Iterator[Finding]:
    """Samples of the same source seem to be in both splits.

    ## What it does
    If both splits are parts of one dataset, compares each validation sample with the training samples next to it in
    that dataset, and with all other training samples of its class.

    ## Why it matters
    Samples of one person, recording, document or minute resemble each other. If they are split at random, the model can
    recognize the source, and the validation score does not show how it does on a new one.

    ## How it is measured
    By the rank of the neighbor among all training samples of the same class (for real-valued targets, of the same
    tenth), ordered by their distance from the validation sample, for series also by that of their spectra. If the order
    of the dataset has no meaning, the mean rank is 0.5. It is reported if the mean rank is below ``rank`` = 0.25 by
    three standard errors.

    ## How to fix
    Split by source, for example with scikit-learn's ``GroupShuffleSplit``, or cut the dataset into contiguous parts.

    ## When to ignore
    When the model will only see the same sources again, or the dataset is sorted by a feature.

    ## References
    S. Saeb and others, The need to approximate the use-case in clinical machine learning (2017): record-wise against
    subject-wise splits.
    """
    pairs, mean_rank = neighbor_similarity.pairs, neighbor_similarity.mean_rank
    if mean_rank + 3 / math.sqrt(12 * len(pairs)) < rank:
        yield _finding(pairs, mean_rank, splitting_line(setup))


def _finding(pairs: list[tuple[int, int]], mean_rank: float, line: SourceLine | None) -> Finding:
    train_index, val_index = pairs[0]
    where, related = locate_ungrouped_split(line, val_index)
    return Finding(
        message="Validation samples resemble their neighbors in the dataset, which are in training: only "
        f"{mean_rank:.0%} of the training samples of the neighbor's class are closer on average, and 50% would be if "
        f"the order had no meaning ({len(pairs)} pairs; the first is {val_index} in validation with {train_index}).",
        where=where,
        related=related,
        cause="Consecutive samples come from one source, and were split at random.",
        fix=_FIX,
        evidence={
            "mean rank": mean_rank,
            "expected": 0.5,
            "pairs": len(pairs),
            "first pairs of train and val": pairs[:20],
        },
        explains=("T611",),
    )


def _setup_with_sources(size: int) -> Setup:
    """Points around the center of their source, ``size`` samples each, split at random."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(240 // size, 4, generator=generator).repeat_interleave(size, 0)
    x = centers + 0.3 * torch.randn(240, 4, generator=generator)
    data = TensorDataset(x, (torch.rand(240, generator=generator) > 0.5).long())
    order = torch.randperm(240, generator=generator).tolist()
    return Setup(
        network(2),
        DataLoader(Subset(data, order[:180]), 16, shuffle=True),
        DataLoader(Subset(data, order[180:]), 16),
        loss_fn=nn.CrossEntropyLoss(),
    )


def bad() -> Setup:
    """Sources of ten samples."""
    return _setup_with_sources(10)


def good() -> Setup:
    """Every sample is its own source."""
    return _setup_with_sources(1)
