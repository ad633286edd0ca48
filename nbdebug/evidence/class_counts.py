"""How often each class comes up in each split, and in what the training loader draws."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.samples import MOST_SAMPLES, Samples, drawn
from nbdebug.evidence.tables import Table
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_indexed
from nbdebug.setup.task import Task


@dataclass(frozen=True)
class ClassCounts:
    """The counts of each class by split, and ``drawn``, those of one epoch of the training loader.

    ``whole`` names the splits of which every sample was read; the others were read at random.
    """

    splits: dict[str, Counter[int]]
    drawn: Counter[int]
    whole: frozenset[str]

    @property
    def classes(self) -> list[int]:
        """Every class of every split."""
        return sorted(set().union(*self.splits.values()))


@measurement
def class_counts(setup: Setup, tables: dict[str, Table], samples: list[Samples], task: Task) -> ClassCounts:
    """The classes of the samples of both splits that were read whole or at random, where each has one."""
    if task.name not in ("classification", "binary"):
        raise NotChecked(f"the task is {task.name}, which has no one class for each sample")
    read_at_random = {one.split for one in samples}
    fair = {split: one for split, one in tables.items() if one.whole or split in read_at_random}
    counts = {split: counted(one) for split, one in fair.items() if one.labels is not None}
    if not counts.get("train"):
        raise NotChecked("there is not one class for each training sample, or the samples cannot be read by index")
    whole = frozenset(split for split, one in fair.items() if one.whole)
    return ClassCounts(counts, by_sampler(setup, fair["train"]) or counts["train"], whole)


def counted(table: Table) -> Counter[int]:
    """How often each class comes up; negative numbers, which losses leave out, are none."""
    assert table.labels is not None
    return Counter(label for label in table.labels.tolist() if label >= 0)


def by_sampler(setup: Setup, table: Table) -> Counter[int] | None:
    """The classes of one epoch, where a sampler of the user's choice decides which samples come how often."""
    loader = setup.train_loader
    if not is_indexed(loader) or table.labels is None:
        return None
    plain = type(loader.batch_sampler) is BatchSampler and type(loader.sampler) in (SequentialSampler, RandomSampler)
    if plain:
        return None
    known = dict(zip(table.indices, table.labels.tolist(), strict=True))
    order = (int(index) for index, _ in zip(drawn(loader), range(MOST_SAMPLES), strict=False))
    return Counter(known[index] for index in order if known.get(index, -1) >= 0)
