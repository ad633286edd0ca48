"""D121: the dataset raises on some indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.evidence.samples import Samples
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import from_exception, where_of
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points
from nbdebug.setup import Setup


@rule("D121", "error")
def unreadable_sample(samples: list[Samples]) -> Iterator[Finding]:
    """The data set raises an error on some indices.

    ## What it does
    Reads samples one by one, in random order for as long as a quarter of a second for each split, and names those on
    which the data set raises or which it gives as None.

    ## Why it matters
    The epoch ends in the middle, hours later perhaps, in a worker whose traceback does not name the sample.

    ## How it is measured
    By reading: ``dataset[index]`` for the indices that the loader visits, without its workers. None counts where the
    loader cannot collate it.

    ## How to fix
    Repair or drop the samples that are named, before the data set is split.

    ## When to ignore
    When the loader catches the error itself.

    ## References
    Documentation of torch.utils.data: map-style datasets.
    """
    if not samples:
        raise NotChecked("there is no data set that is read by index and made of more than tensors")
    for split in samples:
        if raised := {**split.raised, **missing(split)}:
            yield finding(split, dict(sorted(raised.items())))


def missing(split: Samples) -> dict[int, Exception]:
    """The samples that are None and that the loader cannot make a batch of."""
    found: dict[int, Exception] = {}
    for index in [index for index, sample in split.read.items() if sample is None]:
        try:
            split.loader.collate_fn([next(iter(split.read.values())), None])
        except Exception:
            found[index] = TypeError("the sample is None")
    return found


def finding(split: Samples, raised: dict[int, Exception]) -> Finding:
    """Which samples, and what was raised on the first."""
    (first, error), tried = next(iter(raised.items())), len(split.read) + len(split.raised)
    listed = ", ".join(map(str, list(raised)[:5])) + (", …" if len(raised) > 5 else "")
    line = from_exception(error)
    return Finding(
        message=f"{len(raised)} of {tried} {split.split} samples that were tried cannot be read: {listed}; sample "
        f"{first} raised {type(error).__name__}: {error}.",
        where=replace(where_of(line), sample=first),
        cause="The data behind these indices are missing or broken, or the data set says it is longer than it is.",
        fix=f"bad = {{{', '.join(map(str, list(raised)[:20]))}}}\n"
        "dataset = Subset(dataset, [i for i in range(len(dataset)) if i not in bad])",
        evidence={
            "split": split.split,
            "samples": list(raised)[:100],
            "raised": sorted({f"{type(one).__name__}: {one}" for one in raised.values()})[:5],
            "tried": tried,
            "of": len(split.visited),
        },
        explains=("D120",),
    )


class Table(Dataset[Any]):
    """Points, of which some may be missing."""

    def __init__(self, absent: tuple[int, ...]) -> None:
        self.x, self.y = points()
        self.absent = absent

    def __len__(self) -> int:
        """All points, the missing ones too."""
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """A point and its class."""
        if index in self.absent:
            raise FileNotFoundError(f"no point {index}")
        return self.x[index], self.y[index]


def bad() -> Setup:
    """One sample whose file is missing."""
    return Setup(network(3), DataLoader(Table((40,)), 16), loss_fn=nn.CrossEntropyLoss())


def good() -> Setup:
    """All samples there."""
    return Setup(network(3), DataLoader(Table(()), 16), loss_fn=nn.CrossEntropyLoss())
