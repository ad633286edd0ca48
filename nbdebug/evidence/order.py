"""Whether training batches arrive ordered by class."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.tables import Table
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import tensors

DRAWS, ENOUGH, MORE = 999, 3, 32


@dataclass(frozen=True)
class Order:
    """How alike the labels of one batch are: the share of equal pairs in the first batches, and in random ones.

    ``chance`` is the share of random draws that are as alike; ``batches`` holds the class counts of each batch.
    """

    within: float
    overall: float
    chance: float
    batches: list[dict[int, int]]

    @property
    def sorted(self) -> float:
        """How far from shuffled (0) to batches of one class each (1)."""
        return (self.within - self.overall) / (1 - self.overall)


@measurement
def label_order(setup: Setup, batches: list[Batch], tables: dict[str, Table]) -> Order:
    """How alike the labels within each of the first training batches are, beside batches drawn at random."""
    known = [table.labels for table in tables.values() if table.labels is not None]
    parts = [classes(batch) for batch in batches]
    if not known or any(part is None or len(part) < 2 for part in parts):
        raise NotChecked("there is not one class for each of several samples in a batch")
    labels = known[0] if "train" in tables and tables["train"].whole else torch.cat(known)
    seen = [part for part in parts if part is not None]
    whole = "train" in tables and tables["train"].whole
    if not whole and alike([labels]) == 1:
        labels = torch.cat([labels, *further(setup)])
    overall = alike([labels])
    if overall == 1:
        raise NotChecked("all samples that can be read are of one class")
    within, counts = alike(seen), [dict(Counter(part.tolist())) for part in seen]
    return Order(within, overall, chance(labels, seen, within) if within > overall else 1.0, counts)


def further(setup: Setup) -> list[Tensor]:
    """The labels of more batches, for a stream that has begun with one class only."""
    more = (classes(batch) for batch in setup.batches(MORE))
    return [labels for labels in more if labels is not None]


def chance(labels: Tensor, seen: list[Tensor], within: float) -> float:
    """The share of batches drawn at random whose labels are as alike; draws stop once it is sure to be no rarity."""
    generator, sizes, as_alike = torch.Generator().manual_seed(0), [len(part) for part in seen], 0
    for drawn in range(1, DRAWS + 1):
        draw = labels[torch.randint(len(labels), (sum(sizes),), generator=generator)]
        as_alike += alike(list(torch.split(draw, sizes))) >= within
        if as_alike == ENOUGH:
            return as_alike / drawn
    return (as_alike + 1) / (DRAWS + 1)


def classes(batch: Batch) -> Tensor | None:
    """The class of each sample of a batch."""
    found = tensors(batch.targets)
    flat = found[0].detach().cpu().reshape(-1) if len(found) == 1 else None
    return flat.long() if flat is not None and len(flat) == batch.size else None


def alike(parts: list[Tensor]) -> float:
    """The share of pairs of samples of one part that have the same label."""
    equal, pairs = 0, 0
    for part in parts:
        counts = torch.bincount(part - part.min())
        equal += int((counts * (counts - 1)).sum())
        pairs += len(part) * (len(part) - 1)
    return equal / pairs
