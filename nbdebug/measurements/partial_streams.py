"""Whether the rows that were read of a stream stand for the rest of it."""

from __future__ import annotations

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style

_MIN_SORTEDNESS = 0.5  # from 0 for random order to 1 for one run of each class


def begins_ordered_stream(setup: Setup, tables: dict[str, SplitTable]) -> bool:
    """Check for a split of which the first rows were read whose classes arrive in runs, so that the rest has others."""
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    return any(
        not is_map_style(loader) and not tables[split].is_complete and _has_runs(tables[split])
        for split, loader in loaders.items()
        if split in tables
    )


def check_no_ordered_stream(setup: Setup, tables: dict[str, SplitTable]) -> None:
    """Raise NotChecked if the rows of a split are the first of a stream that is ordered by class."""
    if begins_ordered_stream(setup, tables):
        raise NotChecked("the rows that were read are the first of a stream that is ordered by class")


def _has_runs(table: SplitTable) -> bool:
    """Check whether neighbors have the same class more often than rows in random order, or all rows have one class."""
    labels = table.labels
    if labels is None or len(labels) < 2:
        return False
    shares = labels.unique(return_counts=True)[1].double() / len(labels)  # type: ignore[no-untyped-call]
    expected, equal = float(shares.square().sum()), float((labels[1:] == labels[:-1]).double().mean())
    return expected == 1 or (equal - expected) / (1 - expected) >= _MIN_SORTEDNESS
