"""Exact, near and windowed duplicates across the splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from nbdebug.loop_monitor.fold_data import SampleSource
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.split_permutation import get_classes, shared_by_chance
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tensors.row_search import SearchableColumn, find_rows_with_values, get_row_keys

_MIN_DISTINCT_VALUES, _DISTINCT_ROWS = 16, 64
_MIN_CHANCE_SHARE = 0.01  # of rows that are equal to another one, if the data have few distinct rows
_MIN_LENGTH, _MIN_DIVERGENCE = 8, 1.5
_MAX_QUERIES, _MAX_TRAIN_ROWS, _MAX_COLUMNS = 100, 2000, 128
_REFERENCE_NEIGHBOR, _FARTHEST_NEIGHBOR, _MIN_TRAIN_SAMPLES, _MIN_DISTANT_QUERIES = 20, 40, 100, 20
_MIN_GAP_SHARE = 0.5  # of the growth of the log-distance up to the reference neighbor
_MAX_DISTANCE_RATIO, _MIN_DIMENSION = 0.35, 0.75
_MAX_COPIES, _MIN_GROUPED_SHARE = 10, 0.8
_FLAG_WIDTH = 0.05  # of the range: a column is a flag if all values lie this close to its lowest or highest one
_MIN_STEPS, _MIN_VALUES_PER_WINDOW = 4, 4
_MAX_SHIFT = 16
_SAMPLED_PARTS = 2_048


@dataclass(frozen=True)
class SharedSamples:
    """Pairs of dataset indices of samples that occur in both splits, and the number of samples compared.

    ``matched_by`` is "index" if they are matched by index in the same dataset, or "content". ``are_distinctive`` is
    True if equal rows cannot be due to chance. Otherwise, random divisions of all samples into such splits have the
    ``chance_share`` of the validation samples in training on average, and at most the ``highest_chance_share``.
    ``is_complete`` is False if only some of the validation samples were read.
    """

    pairs: list[tuple[int, int]]
    train_size: int
    val_size: int
    matched_by: str
    are_distinctive: bool = True
    chance_share: float = 0.0
    highest_chance_share: float = 0.0
    is_complete: bool = True


@measurement
def shared_samples(setup: Setup, tables: dict[str, SplitTable], batches: list[Batch]) -> SharedSamples:
    """Samples that occur in training and validation, by index in the same dataset, else by content."""
    if is_map_style(setup.train_loader) and is_map_style(setup.val_loader):
        sources = [_find_source_indices(loader) for loader in (setup.train_loader, setup.val_loader)]
        (train_dataset, train_indices), (val_dataset, val_indices) = sources
        if train_dataset is val_dataset and (pairs := _match_positions(train_indices, val_indices)):
            return SharedSamples(pairs, len(train_indices), len(val_indices), "index")
    if len(tables) < 2 or _brings_row_mask(batches):
        return SharedSamples([], 0, 0, "content")
    train, val = tables["train"], tables["val"]
    if not train.may_share_inputs_with(val):
        return SharedSamples([], len(train), len(val), "content", is_complete=val.is_complete)
    sample_keys = {split: get_sample_keys(table) for split, table in tables.items()}
    matches = _match_positions(sample_keys["train"], sample_keys["val"])
    pairs = [(train.indices[i], val.indices[j]) for i, j in matches]
    are_distinctive = not pairs or are_rows_distinctive(train, sample_keys["train"], [i for i, _ in matches])
    shared = SharedSamples(pairs, len(train), len(val), "content", are_distinctive, is_complete=val.is_complete)
    return shared if are_distinctive else _with_chance_shares(shared, sample_keys, get_classes(train, val))


def _with_chance_shares(
    shared: SharedSamples, sample_keys: dict[str, list[Hashable]], classes: tuple[Tensor, Tensor]
) -> SharedSamples:
    """Add the shares of random divisions."""
    numbers: dict[Hashable, int] = {}
    codes = torch.tensor([numbers.setdefault(key, len(numbers)) for key in sample_keys["train"] + sample_keys["val"]])
    shares = shared_by_chance(classes, codes) / shared.val_size
    return replace(shared, chance_share=float(shares.mean()), highest_chance_share=float(shares.max()))


def count_shared_samples(source: SampleSource, others: Sequence[SampleSource]) -> tuple[int, int]:
    """Return how many samples of a source also belong to one of the others, and how many samples it has.

    They are matched by index in the same dataset, else by content in tensors that datasets hold; (0, 0) if neither can
    be had.
    """
    dataset, indices = _unwrap_subsets(source)
    known: set[Hashable] = set()
    for other in others:
        other_dataset, other_indices = _unwrap_subsets(other)
        if other_dataset is dataset:
            known.update(other_indices)
    if known or type(dataset) is not TensorDataset:
        return (sum(index in known for index in indices), len(indices)) if known else (0, 0)
    tensors = [(dataset, indices), *(_unwrap_subsets(other) for other in others)]
    keys = [
        get_row_keys([tensor[list(rows)] for tensor in data.tensors])
        for data, rows in tensors
        if type(data) is TensorDataset
    ]
    known = {key for part in keys[1:] for key in part}
    return sum(key in known for key in keys[0]), len(indices)


def _unwrap_subsets(source: SampleSource) -> tuple[Any, list[int]]:
    """Return the dataset under all subsets, and the index in it of each sample of a source."""
    dataset = source.dataset
    indices = list(map(int, range(len(dataset)) if source.indices is None else source.indices))
    return resolve_subsets(dataset, indices)


def _brings_row_mask(batches: list[Batch]) -> bool:
    """Return whether a batch has a mask that neither model nor loss receives: it may select the rows of a split."""
    known = [tensor for batch in batches[:1] for tensor in tree_tensors((batch.args, batch.kwargs, batch.targets))]
    kinds = {(tensor.shape, tensor.dtype) for tensor in known}
    masks = [tensor for batch in batches[:1] for tensor in tree_tensors(batch.raw) if tensor.dtype == torch.bool]
    return any((mask.shape, mask.dtype) not in kinds for mask in masks)


def _find_source_indices(loader: Any) -> tuple[Any, list[int]]:
    """Return the dataset under all subsets, and the index in it of each sample of a loader."""
    return resolve_subsets(loader.dataset, list(get_visited_indices(loader)))


def resolve_subsets(dataset: Any, indices: Iterable[int]) -> tuple[Any, list[int]]:
    """Return the dataset under all subsets, and these indices as indices of it."""
    indices = list(indices)
    while isinstance(dataset, Subset):
        indices = [int(dataset.indices[index]) for index in indices]
        dataset = dataset.dataset
    return dataset, indices


def _match_positions(train: Sequence[Hashable], val: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the positions in ``train`` and ``val`` of the keys that occur in both."""
    if not (shared := set(val).intersection(train)):
        return []
    train_positions = {key: position for position, key in reversed(list(enumerate(train))) if key in shared}
    return [(train_positions[key], position) for position, key in enumerate(val) if key in shared]


def get_sample_keys(table: SplitTable) -> list[Hashable]:
    """Return a key for each sample, equal for equal inputs with equal targets."""
    return get_row_keys([*table.inputs, *table.targets])


def are_rows_distinctive(
    table: SplitTable, sample_keys: Sequence[Hashable], equal_rows: Sequence[int] | None = None
) -> bool:
    """Return whether equal rows cannot be due to chance: those at ``equal_rows``, or those that repeat in the table.

    This holds if values hardly repeat, or if an equal row has so many distinct values that their order alone identifies
    it: sixteen values have 2e13 arrangements. Short sequences among long ones have fewer. If equal rows come in groups
    of three or more rather than in pairs, the data have few distinct rows, whatever their values, unless few rows are
    equal; so do sequences that follow likely rules.
    """
    counts = Counter(sample_keys)
    repeated = sum(count for count in counts.values() if count > 2)
    duplicated = sum(count for count in counts.values() if count > 1)
    if not table.inputs:
        return False
    if repeated > duplicated / 4 and duplicated >= _MIN_CHANCE_SHARE * len(sample_keys):
        return _are_copies(table, sample_keys)
    if any(map(_has_likely_sequences, table.inputs)):
        return False
    rows = [part.reshape(len(part), -1) for part in table.inputs]
    if equal_rows is None:
        equal_rows = [position for position, key in enumerate(sample_keys) if counts[key] > 1]
    equal = list(equal_rows)[:_DISTINCT_ROWS] or list(range(min(_DISTINCT_ROWS, len(sample_keys))))
    if any(len(row.unique()) >= _MIN_DISTINCT_VALUES for part in rows for row in part[equal]):
        return True
    rows = [part[:256] for part in rows]
    continuous = (column for part in rows if part.is_floating_point() for column in part.t()[:64])
    return any(len(column.unique()) >= len(column) / 2 and len(column) > _MIN_DISTINCT_VALUES for column in continuous)


def _has_likely_sequences(part: Tensor) -> bool:
    """Return whether many sequences share most of their steps and not the last ones; copies share all."""
    rows = part.reshape(len(part), -1)
    if part.is_floating_point() or rows.shape[1] < _MIN_LENGTH:
        return False
    beginnings, wholes = (
        sum(count for count in Counter(get_row_keys([columns])).values() if count > 1)
        for columns in (rows[:, : 3 * rows.shape[1] // 4], rows)
    )
    return beginnings > _MIN_DIVERGENCE * wholes


def _are_copies(table: SplitTable, sample_keys: Sequence[Hashable]) -> bool:
    """Return whether groups of equal rows are copies: in most columns, distinct rows hardly share a value."""
    positions = list({code: position for position, code in enumerate(sample_keys)}.values())
    rows = [part.reshape(len(part), -1)[positions, :64] for part in table.inputs if part.is_floating_point()]
    distinct = [len(column.unique()) for part in rows for column in part.t()]
    distinctive_columns = sum(count > _MIN_DISTINCT_VALUES and count >= len(positions) / 2 for count in distinct)
    return bool(distinct) and distinctive_columns >= len(distinct) / 2


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of dataset indices (train, val) of near duplicates, and the number of validation samples compared.

    ``expected_share`` is the share of equally close pairs if samples filled their space evenly, at the dimensions
    estimated from the distances to farther neighbors. Samples with classes are compared within their class.
    """

    pairs: list[tuple[int, int]]
    queries: int
    expected_share: float = 0.0
    has_classes: bool = False

    @property
    def share(self) -> float:
        """The share of validation samples with a near duplicate in training."""
        return len(self.pairs) / max(self.queries, 1)


@measurement
def near_duplicates(tables: dict[str, SplitTable]) -> NearDuplicates:
    """Near duplicates of validation samples in training, by the ratio of the nearest to the twentieth distance.

    Empty if the inputs are not a single floating-point tensor, or if there are too few training samples.
    """
    train, val = tables.get("train"), tables.get("val")
    if (
        train is None
        or val is None
        or len(train) < _MIN_TRAIN_SAMPLES
        or len(train.inputs) != 1
        or len(val.inputs) != 1
    ):
        return NearDuplicates([], 0)
    parts = train.inputs[0], val.inputs[0]
    if not parts[0].is_floating_point() or parts[0].shape[1:] != parts[1].shape[1:] or not parts[0].numel():
        return NearDuplicates([], 0)
    rows = _random_indices(len(train), _MAX_TRAIN_ROWS), _random_indices(len(val), _MAX_QUERIES)
    train_columns, val_columns = standardize_columns(
        *(part[indices] for part, indices in zip(parts, rows, strict=True))
    )
    if not train_columns.shape[1] or not bool(train_columns.isfinite().all() and val_columns.isfinite().all()):
        return NearDuplicates([], 0)
    is_rare = _has_rare_flags(train_columns, val_columns)
    return _find_near_pairs(train, val, *rows, torch.cdist(val_columns, train_columns), is_rare)


def standardize_columns(train: Tensor, val: Tensor) -> tuple[Tensor, Tensor]:
    """Return some varying columns; those of a table are scaled by their standard deviation."""
    columns = _random_indices(train[0].numel(), _MAX_COLUMNS)
    train_values, val_values = (part.flatten(1)[:, columns].float() for part in (train, val))
    spread = train_values.std(0)
    varying = spread > 1e-6
    unit = spread[varying] if train.dim() == 2 else torch.ones(())
    return train_values[:, varying] / unit, val_values[:, varying] / unit


def _has_rare_flags(train: Tensor, val: Tensor) -> Tensor:
    """Return the rows whose columns of two values are the same in some training rows, but in fewer than eighty.

    These few are closer than all others, whatever the values beside the flags are, such as those of random masks. A
    column also counts if all values are close to its lowest or highest one, as with a number for missing values.
    """
    lowest, highest = train.amin(0), train.amax(0)
    width = _FLAG_WIDTH * (highest - lowest)
    is_flag = ((train <= lowest + width) | (train >= highest - width)).all(0)
    in_train, in_val = ((rows >= highest - width)[:, is_flag].float() for rows in (train, val))
    agreeing = in_val @ in_train.T + (1 - in_val) @ (1 - in_train).T
    alike = (agreeing == int(is_flag.sum())).sum(1)
    return (alike > 0) & (alike < 2 * _FARTHEST_NEIGHBOR)


def _find_near_pairs(
    train: SplitTable, val: SplitTable, train_rows: Tensor, val_rows: Tensor, distances: Tensor, is_rare: Tensor
) -> NearDuplicates:
    """Return the near pairs, and the share expected from the dimension around samples without a near duplicate.

    A sample with rare flags (``is_rare``) must be as close to the nearest one in relation to the second nearest.
    If four fifths of the validation samples each have more than ten training samples that are about as close, these are
    no copies but kinds of samples, such as prototypes with noise: there are no near pairs then.

    Where samples fill few of many dimensions, as heavily padded ones do, the local dimension of each sample is more
    informative. It is at least one, unless a sample has about twenty copies of itself.
    """
    sorted_distances, order = distances.topk(_FARTHEST_NEIGHBOR, dim=1, largest=False)
    nearest, reference = sorted_distances[:, 0], sorted_distances[:, _REFERENCE_NEIGHBOR - 1]
    near = (nearest > 0) & (nearest < _MAX_DISTANCE_RATIO * reference.where(~is_rare, sorted_distances[:, 1]))
    near &= _has_gap(sorted_distances[:, :_REFERENCE_NEIGHBOR])
    max_group_size = max(_MAX_COPIES * len(train_rows) / len(train), 1)
    is_grouped = near & (_group_sizes(sorted_distances[:, :_REFERENCE_NEIGHBOR]) > max_group_size)
    if float(is_grouped.float().mean()) >= _MIN_GROUPED_SHARE:
        return NearDuplicates([], len(val_rows))
    growth = (sorted_distances[:, -1] / reference.clamp_min(1e-12)).log()
    others = growth[~near] if int((~near).sum()) >= _MIN_DISTANT_QUERIES else growth
    local_dimensions = math.log(_FARTHEST_NEIGHBOR / _REFERENCE_NEIGHBOR) / growth.clamp_min(1e-3)
    dimensions = math.log(_FARTHEST_NEIGHBOR / _REFERENCE_NEIGHBOR) / max(float(others.median()), 1e-3)
    local_dimensions = local_dimensions.where(local_dimensions > _MIN_DIMENSION, dimensions)
    positions = [(int(train_rows[order[row, 0]]), int(val_rows[row])) for row in near.nonzero().flatten().tolist()]
    labels = train.labels, val.labels
    pairs = [(train.indices[i], val.indices[j]) for i, j in positions if _have_same_class(*labels, i, j)]
    expected = max(
        _chance_probability(local_dimensions).mean().item(), _chance_probability(torch.tensor(dimensions)).item()
    )
    return NearDuplicates(pairs, len(val_rows), expected, has_classes=all(part is not None for part in labels))


def _has_gap(sorted_distances: Tensor) -> Tensor:
    """Return the rows with one gap between their nearest neighbors and the others, as copies have.

    Half of the growth of the logarithm of the distance lies in it. Along a densely sampled curve, such as a shape at
    all angles, the distances grow with each neighbor instead.
    """
    growth = sorted_distances.clamp_min(1e-12).log().diff(dim=1)
    return growth.amax(1) >= _MIN_GAP_SHARE * growth.sum(1)


def _group_sizes(sorted_distances: Tensor) -> Tensor:
    """Return how many of the nearest neighbors of each row lie before the largest relative gap in their distances."""
    growth = sorted_distances[:, 1:] / sorted_distances[:, :-1].clamp_min(1e-12)
    return growth.argmax(1) + 1


def _chance_probability(dimensions: Tensor) -> Tensor:
    """Return the probability that the nearest of evenly spread neighbors counts as near."""
    return 1 - (1 - _MAX_DISTANCE_RATIO**dimensions) ** (_REFERENCE_NEIGHBOR - 1)


def _have_same_class(train: Tensor | None, val: Tensor | None, train_row: int, val_row: int) -> bool:
    return train is None or val is None or bool(train[train_row] == val[val_row])


def _random_indices(count: int, limit: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:limit]


@dataclass(frozen=True)
class SharedWindows:
    """Pairs (train, val) of windows of ``length`` steps that overlap with a shift of at most ``max_shift``."""

    pairs: list[tuple[int, int]]
    val_size: int
    length: int = 0
    max_shift: int = 0


@measurement
def shared_windows(tables: dict[str, SplitTable]) -> SharedWindows:
    """Validation windows that share at least three quarters of their steps with a training window.

    Time is the second axis, or the last one if there are channels before it.
    """
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or len(train.inputs) != 1 or len(val.inputs) != 1:
        return SharedWindows([], 0)
    train_windows, val_windows = train.inputs[0], val.inputs[0]
    if train_windows.shape[1:] != val_windows.shape[1:] or train_windows.dtype != val_windows.dtype:
        return SharedWindows([], 0)
    axes = range(1, train_windows.dim()) if train_windows.dim() in (2, 3) else ()
    by_axis = [_match_windows(train, val, axis) for axis in axes]
    return max(by_axis, key=lambda windows: len(windows.pairs), default=SharedWindows([], 0))


def _match_windows(train: SplitTable, val: SplitTable, axis: int) -> SharedWindows:
    """Return the shared windows along one axis."""
    train_windows, val_windows = (table.inputs[0].movedim(axis, 1) for table in (train, val))
    if not _is_time_series(train_windows):
        return SharedWindows([], 0)
    length, pairs, max_shift = train_windows.shape[1], dict[int, int](), 0
    sampled_rows = _random_indices(len(val), _SAMPLED_PARTS)
    varieties, searchable = _count_distinct_values(train_windows), dict[tuple[int, int], SearchableColumn]()
    for shift in range(1, min(length // 4, _MAX_SHIFT) + 1):
        previous_count = len(pairs)
        late, early = slice(shift, None), slice(None, -shift)
        for train_steps, val_steps in ((late, early), (early, late)):
            position = _varied_position(varieties, train_steps)
            if position not in searchable:
                searchable[position] = SearchableColumn(_window_column(train_windows, *position))
            column = searchable[position]
            train_part, val_part = train_windows[:, train_steps], val_windows[:, val_steps]
            val_position = position[0] + (shift if train_steps is early else -shift), position[1]
            val_column = _window_column(val_windows, *val_position)
            if len(val) > _SAMPLED_PARTS and not _match_parts(
                train_part, column, val_part[sampled_rows], val_column[sampled_rows]
            ):
                continue  # no row of a random sample has a match
            matches = _match_parts(train_part, column, val_part, val_column)
            pairs = {val_row: train_row for train_row, val_row in matches} | pairs
        max_shift = shift if len(pairs) > previous_count else max_shift
    return SharedWindows([(train.indices[i], val.indices[j]) for j, i in pairs.items()], len(val), length, max_shift)


def _count_distinct_values(windows: Tensor) -> Tensor:
    """Return the number of distinct values of each step and channel in some windows, one row per step."""
    columns = windows[:_SAMPLED_PARTS].flatten(1).t().tolist()
    return torch.tensor([len(set(values)) for values in columns]).reshape(windows.shape[1], -1)


def _varied_position(varieties: Tensor, steps: slice) -> tuple[int, int]:
    """Return the step and channel of a varied value near the middle of some steps, so that most shifts share it."""
    most_varied = varieties[steps].amax(1)
    numbers = torch.arange(len(varieties))[steps][most_varied >= most_varied.max() / 2]
    step = int(numbers[(numbers - len(varieties) // 2).abs().argmin()])
    return step, int(varieties[step].argmax())


def _window_column(windows: Tensor, step: int, channel: int) -> Tensor:
    return windows[:, step].reshape(len(windows), -1)[:, channel]


def _match_parts(
    train_part: Tensor, train_column: SearchableColumn, val_part: Tensor, val_column: Tensor
) -> list[tuple[int, int]]:
    """Return the rows of equal parts of windows; the columns are one varied value of the parts."""
    train_rows = train_column.find_rows(val_column)
    val_rows = find_rows_with_values(val_column, train_column.values[train_rows])
    keys = _get_window_keys(train_part[train_rows]), _get_window_keys(val_part[val_rows])
    return [(int(train_rows[i]), int(val_rows[j])) for i, j in _match_positions(*keys)]


def _get_window_keys(part: Tensor) -> list[Any]:
    """Return a key for each row; a unique one for rows with hardly any distinct values."""
    sorted_values = part.flatten(1).sort(1).values
    has_variety = (sorted_values.diff(dim=1) != 0).sum(1) >= _MIN_VALUES_PER_WINDOW - 1
    return [key if varied else object() for key, varied in zip(get_row_keys([part]), has_variety.tolist(), strict=True)]


def _is_time_series(part: Tensor) -> bool:
    """Return whether samples are sequences of floating-point values that hardly repeat."""
    if part.dim() not in (2, 3) or part.shape[1] < _MIN_STEPS or not part.is_floating_point():
        return False
    first = part[:, 0].reshape(len(part), -1)
    return any(len(column.unique()) > len(column) / 2 for column in first.t())
