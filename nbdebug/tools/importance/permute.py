"""Permutation importance: what the metric loses when a feature is taken from other samples.

Breiman 2001, doi:10.1023/A:1010933404324; of a fitted model, Fisher, Rudin and Dominici 2019, arXiv:1801.01489.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution.given import inputs_of, with_leaves
from nbdebug.setup import Batch
from nbdebug.tools.importance.features import Feature
from nbdebug.tools.importance.scoring import Scorer
from nbdebug.tools.importance.statistics import pair_influence

Floats = NDArray[np.float64]


@dataclass
class Drops:
    """What the metric loses by each feature, a mean over pairs of a sample and the one its value was taken from.

    ``influence`` is what each judged sample adds to it, samples × features; ``counts`` how often each was permuted,
    ``cut`` whether an interrupt ended it.
    """

    drop: Floats
    influence: Floats
    counts: NDArray[np.int64]
    cut: bool = False


class Sums:
    """The sums for one feature so far."""

    def __init__(self, size: int) -> None:
        self.owner, self.donor = np.zeros(size), np.zeros(size)
        self.first = self.second = 0.0
        self.count = 0

    def add(self, lost: Floats, donors: NDArray[np.int64]) -> None:
        """Takes in one permutation; a sample that cannot be judged any more counts as the mean does."""
        lost = np.where(np.isfinite(lost), lost, np.nanmean(lost) if np.isfinite(lost).any() else 0.0)
        self.owner += lost
        self.donor[donors] += lost
        self.first, self.second, self.count = self.first + lost.sum(), self.second + (lost**2).sum(), self.count + 1

    def influence(self, weight: Floats) -> tuple[float, Floats]:
        """The mean, and what each sample adds to it; of a ratio where ``weight`` is not the same for all."""
        size, pairs = len(self.owner), len(self.owner) * self.count
        mean = self.first / pairs
        total = max(self.second / pairs - mean**2, 0.0) * size / max(size - 1, 1)
        owner = self.owner / self.count - mean * (weight - 1)
        return mean, pair_influence(owner, self.donor / self.count, total, self.count)


def drops(
    scorer: Scorer,
    groups: Sequence[Sequence[Feature]],
    repeats: int,
    seen: Callable[[int], bool],
    partial: bool = False,
) -> Drops:
    """Every group of features permuted together so many times.

    ``seen`` is given how many passes are done, and says whether to stop; with ``partial`` an interrupt ends it too.
    """
    judged = np.flatnonzero(np.isfinite(scorer.base))
    sums = [Sums(len(judged)) for _ in groups]
    try:
        permute(scorer, groups, sums, judged, repeats if len(judged) > 1 else 0, seen)
    except KeyboardInterrupt:
        if not partial:
            raise
        return replace(gathered(sums, scorer.weight[judged]), cut=True)
    return gathered(sums, scorer.weight[judged])


def permute(
    scorer: Scorer,
    groups: Sequence[Sequence[Feature]],
    sums: Sequence[Sums],
    judged: NDArray[np.int64],
    repeats: int,
    seen: Callable[[int], bool],
) -> None:
    """All groups once, then all of them again, so that a stop leaves each with nearly as many permutations."""
    generator, done = torch.Generator().manual_seed(0), 0
    for _ in range(repeats):
        donors = others(len(judged), generator)
        where = torch.arange(scorer.batch.size)
        where[torch.from_numpy(judged)] = torch.from_numpy(judged[donors])
        for group, one in zip(groups, sums, strict=True):
            rows = scorer.rows(permuted(scorer.batch, group, where))
            one.add((scorer.base - rows)[judged], donors)
            done += 1
            if seen(done):
                return


def permuted(batch: Batch, group: Sequence[Feature], donors: torch.Tensor) -> Batch:
    """The batch with some features taken from other samples."""
    leaves, changed = inputs_of(batch), dict[int, torch.Tensor]()
    for one in group:
        leaf = changed.get(one.leaf, leaves[one.leaf][1])
        changed[one.leaf] = one.permuted(leaf, donors.to(leaf.device))
    found = with_leaves(batch, changed)
    return Batch(found.args, found.kwargs, batch.targets)


def others(size: int, generator: torch.Generator) -> NDArray[np.int64]:
    """Another sample for each, so that each is taken once."""
    order = torch.randperm(size, generator=generator).numpy()
    donors = np.empty(size, np.int64)
    donors[order] = np.roll(order, 1)
    return donors


def gathered(sums: Sequence[Sums], weight: Floats) -> Drops:
    """The numbers of all features, NaN for those that were not come to."""
    size = len(weight)
    drop, influence = np.full(len(sums), np.nan), np.full((size, len(sums)), np.nan)
    for j, one in enumerate(sums):
        if one.count:
            drop[j], influence[:, j] = one.influence(weight)
    return Drops(drop, influence, np.array([one.count for one in sums], np.int64))
