"""Sources of samples, such as subjects, recordings or documents, that occur in both splits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.duplicates import resolve_subsets
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.tools.data.feature_leaks import table_columns
from nbdebug.validation import argument_error

Groups = dict[str, NDArray[Any]]
_SPLITS = ("train", "val")
_SOURCE_NAMES = re.compile(
    r"(^|_)(subject|patient|person|participant|speaker|user|author|customer|recording|session|document|doc|group|"
    r"video|clip|source|site|device|animal|household)(_?(id|no|number|name))?$",
    re.IGNORECASE,
)
_MIN_SOURCES, _MIN_SAMPLES_PER_SOURCE = 3, 2.0


@dataclass(frozen=True)
class GroupOverlap:
    """Groups that have samples in both splits.

    ``name`` is "groups" if the user passed them, else the part of the samples from which they were guessed.
    ``shared`` of ``val_groups`` validation groups are in training too, with ``share`` of the validation samples.
    """

    name: str
    train_groups: int
    val_groups: int
    shared: int
    share: float
    examples: tuple[str, ...] = ()

    @property
    def is_leak(self) -> bool:
        """True if groups occur in both splits."""
        return self.shared > 0

    @property
    def text(self) -> str:
        """The overlap in words."""
        source = "" if self.name == "groups" else f" (guessed from the name {self.name!r})"
        return (
            f"{self.shared:,} of {self.val_groups:,} validation groups{source} are in training too, with "
            f"{self.share:.0%} of the validation samples, such as {', '.join(self.examples)}"
        )


def validate_groups(groups: Any, setup: Setup) -> Groups | None:
    """Return the group of each sample of the dataset by split; raise SetupError for another form.

    A list belongs to the dataset under the subsets of both loaders.
    """
    if groups is None:
        return None
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    indexed = {split: loader for split, loader in loaders.items() if loader is not None and is_map_style(loader)}
    if isinstance(groups, Mapping):
        unknown = [split for split in groups if split not in indexed]
        if unknown:
            raise argument_error("groups", unknown[0], "a dict with the keys train and val", "Pass both splits")
        return {split: _as_array(split, values, len(indexed[split].dataset)) for split, values in groups.items()}
    result: Groups = {}
    for split, loader in indexed.items():
        root, positions = resolve_subsets(loader.dataset, range(len(loader.dataset)))
        result[split] = _as_array(split, groups, len(root))[positions]
    return result


def _as_array(split: str, values: Any, size: int) -> NDArray[Any]:
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if array.shape != (size,):
        raise SetupError(
            f"groups of {split} has the shape {array.shape}; expected ({size},), a value for each sample of the "
            "dataset. Pass a dict by split, or a list for the dataset under the subsets."
        )
    return array


def compare_groups(
    tables: Mapping[str, SplitTable],
    groups: Groups | None,
    raw_batches: Mapping[str, Sequence[Any]],
    feature_names: Sequence[str] | None,
) -> GroupOverlap | None:
    """Return the overlap of the groups of both splits; None without groups in both."""
    if groups is not None:
        if set(groups) != set(_SPLITS) or not set(_SPLITS) <= set(tables):
            return None
        values = [groups[split][np.asarray(tables[split].indices)] for split in _SPLITS]
        return _overlap("groups", values[0], values[1])
    for name, by_split in _guessed_groups(tables, raw_batches, feature_names):
        return _overlap(name, by_split["train"], by_split["val"])
    return None


def _overlap(name: str, train: NDArray[Any], val: NDArray[Any]) -> GroupOverlap:
    train_groups, val_groups = np.unique(train), np.unique(val)
    shared = np.intersect1d(train_groups, val_groups)
    share = float(np.isin(val, shared).mean()) if len(val) else 0.0
    examples = tuple(str(value) for value in shared[:3].tolist())
    return GroupOverlap(name, len(train_groups), len(val_groups), len(shared), share, examples)


def _guessed_groups(
    tables: Mapping[str, SplitTable], raw_batches: Mapping[str, Sequence[Any]], feature_names: Sequence[str] | None
) -> Iterator[tuple[str, Groups]]:
    """Yield parts of the samples, and columns, whose name is that of a source and whose values repeat."""
    if not set(_SPLITS) <= set(tables):
        return
    candidates = [named_values(raw_batches.get(split, ()), _SOURCE_NAMES) for split in _SPLITS]
    columns = [named_columns(tables[split], feature_names, _SOURCE_NAMES) for split in _SPLITS]
    for train, val in (candidates, columns):
        for name in train.keys() & val.keys():
            distinct = len(np.unique(train[name]))
            repeats = len(train[name]) / max(distinct, 1)
            if distinct >= _MIN_SOURCES and repeats >= _MIN_SAMPLES_PER_SOURCE:
                yield name, {"train": train[name], "val": val[name]}


def named_values(raw_batches: Sequence[Any], pattern: re.Pattern[str]) -> Groups:
    """Return the values of the entries of mappings whose name matches a pattern."""
    values: dict[str, list[Any]] = {}
    for raw in raw_batches:
        for name, entry in raw.items() if isinstance(raw, Mapping) else ():
            if not pattern.search(str(name)):
                continue
            if isinstance(entry, Tensor) and entry.dim() == 1:
                values.setdefault(str(name), []).extend(entry.tolist())
            elif isinstance(entry, (list, tuple)) and all(isinstance(item, (str, int)) for item in entry):
                values.setdefault(str(name), []).extend(entry)
    return {name: np.asarray(items) for name, items in values.items()}


def named_columns(table: SplitTable, feature_names: Sequence[str] | None, pattern: re.Pattern[str]) -> Groups:
    """Return the columns of a table whose name matches a pattern."""
    columns = table_columns(table)
    if columns is None or feature_names is None or len(feature_names) != columns.shape[1]:
        return {}
    return {name: columns[:, number] for number, name in enumerate(feature_names) if pattern.search(name)}
