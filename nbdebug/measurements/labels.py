"""Class counts and names, and the order of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitSamples, SplitTable
from nbdebug.measurements.dense_labels import position_classes
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import MAX_SAMPLER_INDICES, is_map_style, iterate_sampler_indices
from nbdebug.setup.losses import ignore_index
from nbdebug.setup.task import LearningTask
from nbdebug.tensors.pytree import tree_tensors

_CLASS_LIST_ATTRIBUTES = ("classes", "class_names", "categories", "label_names", "label_list")
_WRAPPED_DATASET_ATTRIBUTES = ("dataset", "data", "base")
_MAX_DEPTH = 4
_MAX_DENSE_VALUES = 20_000_000
_MAX_DRAWS, _MAX_EXTREME_DRAWS, _MAX_EXTRA_BATCHES = 999, 3, 32


@dataclass(frozen=True)
class ClassCounts:
    """The class counts of each split, and ``sampled``, those of one epoch of the training loader.

    ``complete_splits`` names the splits that were read completely; the others were sampled at random. ``sizes`` are the
    numbers of samples of the splits. If there is a class at each position of a sample (``is_dense``), the counts of a
    split are those of samples with the class, and ``sampled`` counts the positions. ``marked_splits`` have negative
    labels, which stand for no class, such as those of unlabeled samples.
    """

    splits: dict[str, Counter[int]]
    sampled: Counter[int]
    complete_splits: frozenset[str]
    sizes: dict[str, int]
    is_dense: bool = False
    marked_splits: frozenset[str] = frozenset()
    sorted_splits: frozenset[str] = frozenset()

    def check_comparable(self) -> None:
        """Raise NotChecked if only one split has negative labels: its other samples were not drawn as in the other."""
        if len(self.marked_splits) == 1 and not self.is_dense:
            raise NotChecked("only one split has samples with a negative label, which stands for no class")

    @property
    def classes(self) -> list[int]:
        """All classes of all splits."""
        return sorted(set().union(*self.splits.values()))


@measurement
def class_counts(
    setup: Setup, tables: dict[str, SplitTable], samples: list[SplitSamples], task: LearningTask
) -> ClassCounts:
    """The class counts of the splits that were read completely or sampled at random, by sample and by position."""
    if task.name not in ("classification", "binary"):
        raise NotChecked(f"the task is {task.name}, which does not have one class per sample")
    read_at_random = {table.split for table in samples}
    unbiased = {split: table for split, table in tables.items() if table.is_complete or split in read_at_random}
    complete_splits = frozenset(split for split, table in unbiased.items() if table.is_complete)
    counts = {split: _count_classes(table) for split, table in unbiased.items() if table.labels is not None}
    if counts.get("train"):
        sampled = _count_sampled_classes(setup, unbiased["train"]) or counts["train"]
        sizes = {split: split_counts.total() for split, split_counts in counts.items()}
        marked = {s for s, t in unbiased.items() if t.labels is not None and bool((t.labels < 0).any())}
        return ClassCounts(
            counts,
            sampled,
            complete_splits,
            sizes,
            marked_splits=frozenset(marked),
            sorted_splits=_sorted_splits(unbiased),
        )
    classes_by_split = {split: _get_dense_classes(setup, table, task) for split, table in unbiased.items()}
    dense = {split: classes for split, classes in classes_by_split.items() if classes is not None}
    if "train" not in dense:
        raise NotChecked("the training samples do not have one class each, or cannot be read by index")
    by_sample = {
        split: Counter(c for row in classes for c in set(row.tolist()) - {-1}) for split, classes in dense.items()
    }
    values, position_counts = torch.unique(dense["train"][dense["train"] >= 0], return_counts=True)
    sampled = Counter(dict(zip(values.tolist(), position_counts.tolist(), strict=True)))
    return ClassCounts(by_sample, sampled, complete_splits, {split: len(c) for split, c in dense.items()}, True)


def _sorted_splits(tables: dict[str, SplitTable]) -> frozenset[str]:
    """Return the splits of which all samples of several classes are stored in the order of their classes."""
    sorted_splits = set()
    for split, table in tables.items():
        if table.is_complete and table.labels is not None:
            labels = table.labels[torch.as_tensor([*table.indices]).argsort()]
            changes = labels.diff()
            if bool(changes.any()) and bool((changes >= 0).all() or (changes <= 0).all()):
                sorted_splits.add(split)
    return frozenset(sorted_splits)


def _get_dense_classes(setup: Setup, table: SplitTable, task: LearningTask) -> Tensor | None:
    """Return the class at each position of each sample, -1 for ignored ones; None if there are none."""
    targets = table.targets
    if len(targets) != 1 or (targets[0].is_floating_point() and (task.name != "binary" or targets[0].dim() < 3)):
        return None
    classes = position_classes(targets, ignore_index(setup.loss_fn))
    if classes is None or len(classes) * classes[0].numel() > _MAX_DENSE_VALUES:
        return None
    return classes.flatten(1).clamp(min=-1)


def _count_classes(table: SplitTable) -> Counter[int]:
    """Count each class; negative labels, which losses ignore, are skipped."""
    assert table.labels is not None
    labels, counts = torch.unique(table.labels[table.labels >= 0], return_counts=True)
    return Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))


def _count_sampled_classes(setup: Setup, table: SplitTable) -> Counter[int] | None:
    """Return the class counts of one epoch if a custom sampler draws the samples; else None."""
    labels = _get_sampled_labels(setup, table)
    return None if labels is None else Counter(label for label in labels if label >= 0)


def _get_sampled_labels(setup: Setup, table: SplitTable) -> list[int] | None:
    """Return the labels of one epoch if a custom sampler draws the samples; else None."""
    loader = setup.train_loader
    if not is_map_style(loader) or table.labels is None:
        return None
    is_plain = type(loader.batch_sampler) is BatchSampler and type(loader.sampler) in (SequentialSampler, RandomSampler)
    if is_plain:
        return None
    label_by_index = dict(zip(table.indices, table.labels.tolist(), strict=True))
    order = (int(index) for index, _ in zip(iterate_sampler_indices(loader), range(MAX_SAMPLER_INDICES), strict=False))
    return [label_by_index[index] for index in order if index in label_by_index]


@measurement
def class_maps(setup: Setup) -> dict[str, dict[str, dict[str, int]]]:
    """For each split, the maps from class names to numbers in its dataset, by attribute."""
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    maps_by_split = {
        split: dict(_find_class_maps(getattr(loader, "dataset", None))) for split, loader in loaders.items()
    }
    return {split: split_maps for split, split_maps in maps_by_split.items() if split_maps}


def _find_class_maps(dataset: Any, depth: int = _MAX_DEPTH) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the class maps of a dataset and of the datasets it wraps, with their attribute names."""
    if dataset is None or not depth:
        return
    for name, value in vars(dataset).items() if hasattr(dataset, "__dict__") else ():
        if name in _WRAPPED_DATASET_ATTRIBUTES:
            yield from _find_class_maps(value, depth - 1)
        if (class_map := _to_class_map(name, value)) is not None:
            yield name, class_map


def _to_class_map(name: str, value: Any) -> dict[str, int] | None:
    """Convert a mapping of names to integers, a list of class names or a fitted label encoder to one map."""
    if isinstance(value, Mapping) and value and all(isinstance(k, str) and type(v) is int for k, v in value.items()):
        return dict(value) if len(set(value.values())) == len(value) else None
    names = getattr(value, "classes_", value if name in _CLASS_LIST_ATTRIBUTES else ())
    class_names = list(map(str, names)) if isinstance(names, (list, tuple)) or hasattr(names, "tolist") else []
    numbered = {class_name: number for number, class_name in enumerate(class_names)}
    return numbered if class_names and len(numbered) == len(class_names) else None


@dataclass(frozen=True)
class LabelOrder:
    """Share of pairs with equal labels within the first batches, and within random ones.

    ``p_value`` is the share of random draws with at least that agreement; ``class_counts`` are the class counts of each
    batch, without samples whose label stands for no class. If not ``is_whole``, the random batches are drawn from what
    was read of both splits, whose class shares may be others than those of an epoch; ``classes`` are the classes there.
    """

    batch_agreement: float
    overall_agreement: float
    p_value: float
    class_counts: list[dict[int, int]]
    classes: tuple[int, ...]
    is_whole: bool

    @property
    def sortedness(self) -> float:
        """The degree of sorting, from 0 (shuffled) to 1 (batches of one class each)."""
        return (self.batch_agreement - self.overall_agreement) / (1 - self.overall_agreement)


@measurement
def label_order(setup: Setup, batches: list[Batch], tables: dict[str, SplitTable]) -> LabelOrder:
    """Agreement of the labels within each of the first training batches, compared with random batches of an epoch.

    An epoch has the class shares that the sampler draws, which are others than those of the dataset if it draws some
    classes more often. Labels that stand for no class count neither in the batches nor in the epoch.
    """
    whole_parts = [part for batch in batches if (part := _get_class_labels(batch)) is not None and len(part) > 1]
    if len(whole_parts) < len(batches):
        raise NotChecked("the batches do not have several samples with one class each")
    of_splits = {split: table.labels for split, table in tables.items() if table.labels is not None}
    marks = _find_marks(setup, [*of_splits.values(), *whole_parts])
    parts = [part for labels in whole_parts if len(part := marks.drop(labels)) > 1]
    known = {split: part for split, labels in of_splits.items() if len(part := marks.drop(labels))}
    if not known or not parts:
        raise NotChecked("the batches do not have several samples with one class each")
    drawn = marks.drop(_get_epoch_labels(setup, tables["train"] if "train" in of_splits else None))
    is_drawn = len({*drawn.tolist()}) > 1
    is_whole = is_drawn or ("train" in known and tables["train"].is_complete)
    labels = drawn if is_drawn else known["train"] if is_whole else _read_labels(setup, known, marks, parts)
    overall_agreement, batch_agreement = _compute_agreement([labels]), _compute_agreement(parts)
    if overall_agreement == 1:
        raise NotChecked("all readable samples have the same class")
    return LabelOrder(
        batch_agreement,
        overall_agreement,
        _compute_p_value(labels, parts, batch_agreement) if batch_agreement > overall_agreement else 1.0,
        [dict(Counter(part.tolist())) for part in parts],
        tuple(sorted(set(labels.tolist()))),
        is_whole,
    )


def _read_labels(setup: Setup, known: Mapping[str, Tensor], marks: _LabelMarks, parts: Sequence[Tensor]) -> Tensor:
    """Return the labels that stand for an epoch that was read in part.

    They are those of the batches: the classes of the other split may have other shares.
    """
    read, labels = torch.cat([*parts]), torch.cat([*known.values()])
    if _compute_agreement([read]) < 1:
        return read
    if _compute_agreement([labels]) == 1:
        return torch.cat([labels, *map(marks.drop, _read_more_labels(setup))])
    return labels


@dataclass(frozen=True)
class _LabelMarks:
    """The labels that stand for no class: ``ignored``, and negative ones unless the classes are -1 and 1."""

    ignored: int
    are_signs: bool

    def drop(self, labels: Tensor) -> Tensor:
        """Return the labels that stand for a class."""
        return labels[(labels != self.ignored) & ((labels >= 0) | self.are_signs)]


def _find_marks(setup: Setup, parts: Sequence[Tensor]) -> _LabelMarks:
    """Return which labels stand for no class, for all labels that were read."""
    values = set().union(*(labels.tolist() for labels in parts))
    return _LabelMarks(ignore_index(setup.loss_fn), values <= {-1, 1})


def _get_epoch_labels(setup: Setup, table: SplitTable | None) -> Tensor:
    """Return the labels of one epoch if a custom sampler draws the samples; else none."""
    labels = None if table is None else _get_sampled_labels(setup, table)
    return torch.tensor(labels or [], dtype=torch.long)


def _read_more_labels(setup: Setup) -> list[Tensor]:
    """Read the labels of more batches of a stream that begins with a single class."""
    more = (_get_class_labels(batch) for batch in setup.batches(_MAX_EXTRA_BATCHES))
    return [labels for labels in more if labels is not None]


def _compute_p_value(labels: Tensor, batch_labels: list[Tensor], batch_agreement: float) -> float:
    """Return the share of random batches with at least the same agreement; stop drawing once it is clearly not rare."""
    generator, sizes, extreme = torch.Generator().manual_seed(0), [len(part) for part in batch_labels], 0
    for draws in range(1, _MAX_DRAWS + 1):
        drawn_labels = labels[torch.randint(len(labels), (sum(sizes),), generator=generator)]
        extreme += _compute_agreement(list(torch.split(drawn_labels, sizes))) >= batch_agreement
        if extreme == _MAX_EXTREME_DRAWS:
            return extreme / draws
    return (extreme + 1) / (_MAX_DRAWS + 1)


def get_flat_targets(batch: Batch) -> Tensor | None:
    """Return the only target of each sample of a batch; None if a sample has none or several."""
    target_tensors = tree_tensors(batch.targets)
    flat = target_tensors[0].detach().cpu().reshape(-1) if len(target_tensors) == 1 else None
    return flat if flat is not None and len(flat) == batch.size else None


def _get_class_labels(batch: Batch) -> Tensor | None:
    flat = get_flat_targets(batch)
    return flat.long() if flat is not None else None


def _compute_agreement(parts: list[Tensor]) -> float:
    equal, pairs = 0, 0
    for part in parts:
        counts = torch.bincount(part - part.min())
        equal += int((counts * (counts - 1)).sum())
        pairs += len(part) * (len(part) - 1)
    return equal / pairs
