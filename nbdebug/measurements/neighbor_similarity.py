"""Whether validation samples resemble the training samples next to them in their common dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.baselines.class_scores import feature_views
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.duplicates import resolve_subsets, standardize_columns
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style, reads_tensor_dataset

_MIN_NEIGHBORS, _MAX_NEIGHBORS, _TARGET_BINS = 20, 300, 10


@dataclass(frozen=True)
class NeighborSimilarity:
    """Similarity of validation samples to training samples that are next to them in their common dataset.

    ``mean_rank`` is the mean share of training samples of the same class that are more similar than the neighbor: 0.5
    if the order of the dataset means nothing. ``pairs`` are indices (train, val) in the common dataset.
    """

    mean_rank: float
    pairs: list[tuple[int, int]]


@measurement
def neighbor_similarity(setup: Setup, tables: dict[str, SplitTable]) -> NeighborSimilarity:
    """Rank of the training sample next to each validation sample by its distance, among those of the same class."""
    train, val = tables.get("train"), tables.get("val")
    loaders = setup.train_loader, setup.val_loader
    if train is None or val is None or not all(map(is_map_style, loaders)) or len(train.inputs) != 1:
        raise NotChecked("the splits are not two parts of one dataset that can be read by index")
    roots, positions = zip(*(_find_positions(*item) for item in zip(loaders, (train, val), strict=True)), strict=True)
    if roots[0] is not roots[1]:
        raise NotChecked("the splits are not two parts of one dataset")
    train_rows = {position: row for row, position in enumerate(positions[0])}
    pairs = [
        (train_rows[neighbor], row)
        for row, position in enumerate(positions[1])
        for neighbor in (position - 1, position + 1)
        if neighbor in train_rows
    ][:_MAX_NEIGHBORS]
    if len(pairs) < _MIN_NEIGHBORS:
        raise NotChecked(f"fewer than {_MIN_NEIGHBORS} validation samples are next to a training sample in one dataset")
    mean_rank = min(_mean_rank(_get_strata(train), *view, pairs) for view in _neighbor_views(train, val))
    indices = [(positions[0][train_row], positions[1][val_row]) for train_row, val_row in pairs]
    return NeighborSimilarity(mean_rank, indices)


def _find_positions(loader: Any, table: SplitTable) -> tuple[Any, list[int]]:
    """Return the dataset under all subsets, and the position of each row of a table in it."""
    indices = list(table.indices)
    root, positions = resolve_subsets(loader.dataset, [] if reads_tensor_dataset(loader) else indices)
    return root, positions or indices


def _neighbor_views(train: SplitTable, val: SplitTable) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the columns of both splits, and for series their spectra, since windows of one source differ in phase."""
    parts = train.inputs[0].float(), val.inputs[0].float()
    yield standardize_columns(*parts)
    for view in feature_views([torch.cat(parts)])[1:]:
        yield torch.from_numpy(view[: len(train)]), torch.from_numpy(view[len(train) :])


def _mean_rank(classes: Tensor, train: Tensor, val: Tensor, pairs: list[tuple[int, int]]) -> float:
    """Return the mean share of training samples of the same class that are closer than the neighbor."""
    ranks = []
    for train_row, val_row in pairs:
        distances = (train[classes == classes[train_row]] - val[val_row]).square().sum(1)
        own = (train[train_row] - val[val_row]).square().sum()
        ranks.append((distances < own).float().mean() + (distances == own).float().mean() / 2)
    return float(torch.stack(ranks).mean())


def _get_strata(table: SplitTable) -> Tensor:
    """Return the class of each sample; for one real-valued target its tenth; else one class for all."""
    if table.labels is not None:
        return table.labels
    if len(table.targets) != 1 or table.targets[0].numel() != len(table):
        return torch.zeros(len(table), dtype=torch.long)
    order = table.targets[0].flatten().argsort().argsort()
    return order * _TARGET_BINS // max(len(table), 1)
