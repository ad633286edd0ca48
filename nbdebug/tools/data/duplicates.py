"""Exact and near duplicates within and across the splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.duplicates import SharedSamples, SharedWindows, are_rows_distinctive
from nbdebug.setup import Setup
from nbdebug.tensors.row_search import get_row_hashes, get_row_keys
from nbdebug.tools.data.clipped_copies import have_clipped_shades
from nbdebug.tools.data.comparison_features import find_blank_samples
from nbdebug.tools.data.cropped_copies import find_cropped_pairs
from nbdebug.tools.data.embedding_copies import EmbeddingPairs, find_embedding_pairs
from nbdebug.tools.data.near_duplicates import (
    NearPairs,
    find_near_pairs,
    have_same_details,
    have_same_tokens,
    signatures,
)
from nbdebug.tools.data.overlapping_windows import find_overlapping_windows
from nbdebug.tools.data.split_profile import SPLIT_NAMES, SplitAccumulator

if TYPE_CHECKING:
    import pandas

_Kind = Literal["exact", "same index", "near", "crop", "shifted window", "embedding"]
_MAX_NEAR_ROWS, _MAX_CHANNELS = 60_000, 4
_COMPARED = ("train", "val")


@dataclass(frozen=True)
class DuplicatePair:
    """Two samples with equal or similar inputs, by split and dataset index.

    ``ratio`` is the distance relative to that of the twentieth neighbor, 0 for equal inputs; of embeddings, relative to
    that of the nearest sample which is no copy. ``has_same_target`` is
    None without one class for each sample.
    """

    kind: _Kind
    first: tuple[str, int]
    second: tuple[str, int]
    ratio: float = 0.0
    has_same_target: bool | None = None

    @property
    def is_across(self) -> bool:
        """True if the samples are in different splits."""
        return self.first[0] != self.second[0]

    @property
    def text(self) -> str:
        """The pair in words."""
        places = [f"{SPLIT_NAMES[split]} {index}" for split, index in (self.first, self.second)]
        labels = "" if self.has_same_target is not False else ", with different labels"
        return f"{self.kind}: {places[0]} and {places[1]}{labels}"


@dataclass(frozen=True)
class Duplicates:
    """All pairs, exact ones first, then the closest.

    ``rows`` are the numbers of samples of each split that were compared exactly, and ``near_rows`` is the number of
    those compared by similarity; a pair closer than ``near_ratio`` would have been listed. ``embedding_rows`` and
    ``embedding_ratio`` are those of the embeddings, None without them. ``is_overlap_decidable`` is
    False if only one split is augmented at random, so that copies differ. ``notes`` say what could not be compared.
    """

    pairs: tuple[DuplicatePair, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()
    near_rows: int = 0
    near_ratio: float = 0.0
    embedding_rows: int | None = None
    embedding_ratio: float = 0.0
    is_overlap_decidable: bool = True
    notes: tuple[str, ...] = ()

    def count(self, is_across: bool, *kinds: str) -> int:
        """Return the number of pairs across or within splits, of some kinds or all."""
        return sum(pair.is_across == is_across and (not kinds or pair.kind in kinds) for pair in self.pairs)

    @property
    def faults(self) -> list[str]:
        """The number of pairs of each kind in words."""
        counts = Counter((pair.first[0], pair.second[0], pair.kind) for pair in self.pairs)
        conflicts = sum(pair.has_same_target is False and pair.kind == "exact" for pair in self.pairs)
        texts = [f"{count:,} {_describe_pairs(*key)}" for key, count in counts.items()]
        return [*texts, *([f"{conflicts:,} exact duplicates have different labels"] if conflicts else [])]

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per pair."""
        import pandas as pd

        columns = ["kind", "first_split", "first", "second_split", "second", "ratio", "same_target"]
        rows = [(pair.kind, *pair.first, *pair.second, pair.ratio, pair.has_same_target) for pair in self.pairs]
        return pd.DataFrame(rows, columns=columns)


def _describe_pairs(first: str, second: str, kind: str) -> str:
    names = {
        "exact": "exact duplicates",
        "near": "near duplicates",
        "crop": "crops",
        "shifted window": "overlapping windows",
        "embedding": "near duplicates by embedding",
    }
    if kind == "same index":
        return f"validation samples are also in {SPLIT_NAMES[first]}"
    place = SPLIT_NAMES[first]
    return f"{names[kind]} in {place}" if first == second else f"{names[kind]} of {SPLIT_NAMES[second]} in {place}"


@dataclass(frozen=True, eq=False)
class EmbeddedRows:
    """Embeddings of the samples of a split, a row for each of the dataset indices."""

    indices: Sequence[int]
    rows: NDArray[np.float32]


def find_duplicates(
    setup: Setup,
    accumulators: Mapping[str, SplitAccumulator],
    tables: Mapping[str, SplitTable],
    augmented: Set[str],
    embeddings: Mapping[str, EmbeddedRows] | None = None,
) -> Duplicates:
    """Find the duplicates of training and validation, near ones also by their ``embeddings``.

    Rows whose equality may be due to chance, since they have few distinct values, are not compared. The samples of
    ``augmented`` splits were read with the same random numbers each.
    """
    compared = {split: accumulators[split] for split in _COMPARED if split in accumulators and split in tables}
    if not compared:
        return Duplicates(notes=("duplicates: the samples cannot be collated to rows",))
    notes, pairs = [], []
    measurements = Measurements(setup, tables={split: tables[split] for split in compared})
    shared = _measure_shared_samples(measurements)
    if shared is not None and shared.matched_by == "index":
        pairs += [DuplicatePair("same index", ("train", i), ("val", j)) for i, j in shared.pairs]
    indistinct = [split for split in compared if not _is_distinctive(tables[split])]
    if indistinct:
        names = " and ".join(SPLIT_NAMES[split] for split in indistinct)
        notes.append(f"duplicates: the rows of {names} have so few distinct values that equal ones are due to chance")
        return Duplicates(tuple(pairs), notes=tuple(notes))
    labels = {split: _labels_by_index(tables[split]) for split in compared}
    if not pairs:
        pairs += _exact_pairs(compared, labels)
        pairs += _shifted_windows(measurements, tables)
    rows = tuple((split, sum(map(len, accumulator.keys))) for split, accumulator in compared.items())
    is_decidable = len(compared.keys() & augmented) != 1 or len(compared) < 2
    if not is_decidable:
        notes.append("overlap: only one split is augmented at random, so that copies of its samples differ")
    near, search = _near_pairs({split: tables[split] for split in compared}, labels)
    pairs = _join_pairs(pairs, near)
    embedded = EmbeddingPairs()
    if embeddings:
        by_embedding, embedded = _embedding_pairs(embeddings, labels, pairs)
        pairs = _join_pairs(pairs, by_embedding)
    return Duplicates(
        tuple(pairs),
        rows,
        search.rows,
        search.detectable_ratio,
        None if embeddings is None else embedded.rows,
        embedded.detectable_ratio,
        is_decidable,
        tuple(notes),
    )


def _join_pairs(pairs: Sequence[DuplicatePair], others: Sequence[DuplicatePair]) -> list[DuplicatePair]:
    """Return some pairs, and those of the others that are not among them."""
    known = {frozenset((pair.first, pair.second)) for pair in pairs}
    return [*pairs, *(pair for pair in others if frozenset((pair.first, pair.second)) not in known)]


def _embedding_pairs(
    embeddings: Mapping[str, EmbeddedRows], labels: Mapping[str, dict[int, int]], known: Sequence[DuplicatePair]
) -> tuple[list[DuplicatePair], EmbeddingPairs]:
    """Return the pairs whose embeddings are near, without exact copies of samples, and what was searched."""
    copies = {pair.second for pair in known if pair.kind in ("exact", "same index")}
    places = [(split, int(index)) for split, item in embeddings.items() for index in item.indices]
    kept = [row for row, place in enumerate(places) if place not in copies]
    search = find_embedding_pairs(np.concatenate([item.rows for item in embeddings.values()])[kept])
    pairs = []
    for (row, other), ratio in zip(search.pairs, search.ratios, strict=True):
        first, second = places[kept[row]], places[kept[other]]
        if first[0] == second[0]:  # the rows are in the order of the draw
            first, second = min(first, second), max(first, second)
        same = _have_same_label(labels, first, second)
        pairs.append(DuplicatePair("embedding", first, second, ratio, same))
    return pairs, search


def _is_distinctive(table: SplitTable) -> bool:
    """Return whether equal rows are copies rather than due to chance; blank samples do not decide that."""
    is_varied = ~torch.stack([torch.zeros(len(table)), *map(find_blank_samples, table.inputs)]).any(0)
    varied = replace(table, inputs=tuple(part[is_varied] for part in table.inputs))
    return are_rows_distinctive(varied, get_row_keys([part for part in varied.inputs if part.numel()]))


def _measure_shared_samples(measurements: Measurements) -> SharedSamples | None:
    try:
        shared: SharedSamples = measurements["shared_samples"]
    except (NotChecked, SetupError):
        return None
    return shared


def _shifted_windows(measurements: Measurements, tables: Mapping[str, SplitTable]) -> list[DuplicatePair]:
    """Return the validation windows that share a quarter or more of their steps with a training window."""
    try:
        shared: SharedWindows = measurements["shared_windows"]
    except (NotChecked, SetupError):
        return []
    by_shift = {j: i for i, j in find_overlapping_windows(tables)} | {j: i for i, j in shared.pairs}
    return [DuplicatePair("shifted window", ("train", i), ("val", j)) for j, i in by_shift.items()]


def _labels_by_index(table: SplitTable) -> dict[int, int]:
    return {} if table.labels is None else dict(zip(table.indices, table.labels.tolist(), strict=True))


def _exact_pairs(
    accumulators: Mapping[str, SplitAccumulator], labels: Mapping[str, dict[int, int]]
) -> Iterator[DuplicatePair]:
    """Yield each later sample with the first one of the same inputs, in training before validation."""
    names, items = list(accumulators), list(accumulators.values())
    keys = np.concatenate([key for item in items for key in item.keys] or [np.zeros(0, np.int64)])
    indices = np.concatenate([np.asarray(item.indices, np.int64) for item in items])
    splits = np.repeat(np.arange(len(items)), [len(item.indices) for item in items])
    order = np.lexsort((keys, indices, splits))
    _, first, group = np.unique(keys[order], return_index=True, return_inverse=True)
    earlier = first[group]
    for row in np.flatnonzero(earlier != np.arange(len(order))).tolist():
        place, copy = ((names[splits[i]], int(indices[i])) for i in (order[earlier[row]], order[row]))
        if place != copy:
            yield DuplicatePair("exact", place, copy, 0.0, _have_same_label(labels, place, copy))


def _have_same_label(
    labels: Mapping[str, dict[int, int]], first: tuple[str, int], second: tuple[str, int]
) -> bool | None:
    values = [labels.get(split, {}).get(index) for split, index in (first, second)]
    return None if None in values else values[0] == values[1]


def _near_pairs(
    tables: Mapping[str, SplitTable], labels: Mapping[str, dict[int, int]]
) -> tuple[list[DuplicatePair], NearPairs]:
    """Return the near duplicates among the stored rows of all splits, and what was searched."""
    parts = _comparable_inputs(list(tables.values()))
    places = [(split, int(index)) for split, table in tables.items() for index in table.indices[:_MAX_NEAR_ROWS]]
    distinct = _first_distinct_rows(parts)
    rows = [part[torch.as_tensor(distinct)] for part in parts]
    del parts  # up to 25 million values of each split
    points = signatures(rows)
    if points is None:
        return [], NearPairs((), (), 0.0, 0)
    near, images = find_near_pairs(points), _images(rows)
    is_copy = have_same_tokens(rows, near.pairs)
    if images is not None and near.pairs:
        is_copy &= have_same_details(images, near.pairs)
    ratios = dict(compress(zip(near.pairs, near.ratios, strict=True), is_copy))
    listed: dict[tuple[int, int], tuple[_Kind, float]] = {pair: ("near", ratio) for pair, ratio in ratios.items()}
    if images is not None:
        is_clipped = have_clipped_shades(images, list(near.doubtful))
        for pair, ratio in compress(near.doubtful.items(), is_clipped):
            listed.setdefault(pair, ("near", ratio))
        for row, other, ratio in find_cropped_pairs(images):
            listed.setdefault((min(row, other), max(row, other)), ("crop", ratio))
    result = []
    for (row, other), (kind, ratio) in listed.items():
        first, second = places[distinct[row]], places[distinct[other]]
        result.append(DuplicatePair(kind, first, second, ratio, _have_same_label(labels, first, second)))
    return result, near


def _images(parts: Sequence[Tensor]) -> Tensor | None:
    """Return the only input if it holds images, channels first; None for others."""
    if len(parts) != 1 or parts[0].dim() != 4 or parts[0].is_complex():
        return None
    images = parts[0]
    if images.shape[1] > _MAX_CHANNELS:
        images = images.movedim(3, 1)
    return images if images.shape[1] <= _MAX_CHANNELS else None


def _comparable_inputs(tables: Sequence[SplitTable]) -> list[Tensor]:
    """Return the rows of all splits below each other, for inputs with the same shape and dtype in all of them."""
    forms = [{(number, part.shape[1:], part.dtype) for number, part in enumerate(table.inputs)} for table in tables]
    shared = sorted(set.intersection(*forms), key=lambda form: form[0])
    return [torch.cat([table.inputs[number][:_MAX_NEAR_ROWS] for table in tables]) for number, *_ in shared]


def _first_distinct_rows(parts: Sequence[Tensor]) -> NDArray[np.int64]:
    """Return the positions of the first of equal rows."""
    first: NDArray[np.int64] = np.sort(np.unique(get_row_hashes(parts), return_index=True)[1])
    return first
