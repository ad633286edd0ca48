"""D121: the dataset raises an error on some indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.dataset_rows import SplitSamples
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.source.location import get_line_from_exception, get_location


@rule("D121", "error")
def unreadable_sample(samples: list[SplitSamples]) -> Iterator[Finding]:
    """The dataset raises an error on some indices.

    ## What it does
    Reads single samples in random order, for up to a quarter of a second for each split, and reports those on which the
    dataset raises an error or returns None.

    ## Why it matters
    The epoch ends in the middle, possibly hours later, in a worker whose traceback does not name the sample.

    ## How it is measured
    By calling ``dataset[index]`` for the indices that the loader visits, without its workers. None counts if the loader
    cannot collate it.

    ## How to fix
    Repair or drop the reported samples before the dataset is split.

    ## When to ignore
    When the loader catches the error itself.

    ## References
    Documentation of torch.utils.data: map-style datasets.
    """
    if not samples:
        raise NotChecked("no loader has a map-style dataset other than tensors in memory")
    for split in samples:
        if raised := {**split.failures, **_uncollatable_samples(split)}:
            yield _finding(split, dict(sorted(raised.items())))


def _uncollatable_samples(split: SplitSamples) -> dict[int, Exception]:
    """Return the samples that are None and that the loader cannot collate."""
    errors: dict[int, Exception] = {}
    for index in [index for index, sample in split.by_index.items() if sample is None]:
        try:
            split.loader.collate_fn([next(iter(split.by_index.values())), None])
        except Exception:
            errors[index] = TypeError("the sample is None")
    return errors


def _finding(split: SplitSamples, raised: dict[int, Exception]) -> Finding:
    (first, error), tried = next(iter(raised.items())), len(split.by_index) + len(split.failures)
    listed = ", ".join(map(str, list(raised)[:5])) + (", …" if len(raised) > 5 else "")
    line = get_line_from_exception(error)
    return Finding(
        message=f"{len(raised)} of {tried} tested {split.split} samples cannot be read (indices {listed}). "
        f"Reading sample {first} raised {type(error).__name__}: '{error}'.",
        where=replace(get_location(line), sample=first),
        cause="The data for these indices are missing or corrupt, or the dataset reports a length that is too large.",
        fix=f"bad = {{{', '.join(map(str, list(raised)[:20]))}}}\n"
        "dataset = Subset(dataset, [i for i in range(len(dataset)) if i not in bad])",
        evidence={
            "split": split.split,
            "samples": list(raised)[:100],
            "raised": sorted({f"{type(exception).__name__}: {exception}" for exception in raised.values()})[:5],
            "tried": tried,
            "of": len(split.indices),
        },
        explains=("D120",),
    )


class PointsWithMissingFiles(Dataset[Any]):
    """Points, some of which may be missing."""

    def __init__(self, absent: tuple[int, ...]) -> None:
        self.x, self.y = points()
        self.missing_indices = absent

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if index in self.missing_indices:
            raise FileNotFoundError(f"no point {index}")
        return self.x[index], self.y[index]


def bad() -> Setup:
    """The file of one sample is missing."""
    return Setup(network(3), DataLoader(PointsWithMissingFiles((40,)), 16), loss_fn=nn.CrossEntropyLoss())


def good() -> Setup:
    """All samples are available."""
    return Setup(network(3), DataLoader(PointsWithMissingFiles(()), 16), loss_fn=nn.CrossEntropyLoss())
