"""Leaks of the target into the features, and of validation into training: sources, oversampling, fitted scalers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.duplicates import resolve_subsets
from nbdebug.measurements.neighbor_similarity import NeighborSimilarity
from nbdebug.setup import Setup
from nbdebug.setup.loaders import reads_tensor_dataset
from nbdebug.tools.data.duplicates import Duplicates
from nbdebug.tools.data.feature_leaks import FeatureLeak, find_feature_leaks, find_identifiers
from nbdebug.tools.data.joint_scaling import JointScaling, find_joint_scaling
from nbdebug.tools.data.sample_groups import GroupOverlap, Groups, compare_groups
from nbdebug.tools.data.time_order import TimeOrder, compare_times

if TYPE_CHECKING:
    import pandas

_MIN_COPIED_SHARE, _MAX_OTHER_SHARE, _MIN_COPIES = 0.2, 0.02, 10
_MAX_MEAN_RANK = 0.25  # of the neighbor in the dataset, among the training samples of its class; rule D124


@dataclass(frozen=True)
class _OversampledClass:
    """A class with copies in both splits, unlike the others, as after oversampling before the split.

    ``copied_share`` is the share of its validation samples with a copy in training, ``other_share`` that of the others.
    """

    label: int
    copied_share: float
    other_share: float
    copies: int


@dataclass(frozen=True)
class _NeighboringSources:
    """Validation samples that resemble the training samples next to them in their common dataset.

    ``mean_rank`` is the share of the training samples of the same class that are closer, 0.5 without sources.
    """

    mean_rank: float
    pairs: int


@dataclass(frozen=True)
class Leaks:
    """Ways in which the target or the validation samples are visible in training.

    ``features`` alone reveal the target; ``identifiers`` number the samples. ``groups`` are sources in both splits, by
    given or guessed groups, and ``neighbors`` those that the order of the dataset shows. ``columns`` is the number of
    features that were compared with the target, on ``rows`` training samples; a copy of the target with
    ``detectable_noise`` would have been found. ``scaling`` tells if a scaler was fitted to both splits; None without
    columns of real numbers. ``times`` are those of both splits; None without a part that is named like a time.
    """

    features: tuple[FeatureLeak, ...] = ()
    identifiers: tuple[str, ...] = ()
    groups: GroupOverlap | None = None
    neighbors: _NeighboringSources | None = None
    oversampled: _OversampledClass | None = None
    columns: int = 0
    rows: int = 0
    detectable_noise: float = 0.0
    scaling: JointScaling | None = None
    times: TimeOrder | None = None

    @property
    def has_neighboring_sources(self) -> bool:
        """True if the order of the dataset shows sources in both splits."""
        neighbors = self.neighbors
        return neighbors is not None and neighbors.mean_rank + 3 / (12 * neighbors.pairs) ** 0.5 < _MAX_MEAN_RANK

    @property
    def faults(self) -> list[str]:
        """The leaks in words."""
        return list(self._texts())

    def _texts(self) -> Iterator[str]:
        yield from (leak.text for leak in self.features)
        yield from (f"{name} numbers the samples; a model can memorize them by it" for name in self.identifiers)
        if self.groups is not None and self.groups.is_leak:
            yield self.groups.text
        elif self.groups is None and self.has_neighboring_sources:
            assert self.neighbors is not None
            yield (
                f"validation samples resemble their neighbors in the dataset, which are in training: only "
                f"{self.neighbors.mean_rank:.0%} of the training samples of their class are closer, 50% without sources"
            )
        if self.scaling is not None and self.scaling.is_fault:
            yield self.scaling.text
        if self.times is not None and self.times.is_reversed:
            yield self.times.text
        if self.oversampled is not None:
            item = self.oversampled
            yield (
                f"class {item.label} was oversampled before the split: {item.copied_share:.0%} of its validation "
                f"samples are copies of training samples, of the other classes {item.other_share:.0%}"
            )

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per leaking feature: its score alone and that of the next feature."""
        import pandas as pd

        return pd.DataFrame([vars(leak) for leak in self.features], columns=list(FeatureLeak.__annotations__))


def find_leaks(
    setup: Setup,
    tables: Mapping[str, SplitTable],
    duplicates: Duplicates,
    groups: Groups | None,
    raw_batches: Mapping[str, Sequence[Any]],
) -> Leaks:
    """Find the leaks in the training table, and between training and validation.

    ``groups`` are those that the user passes; without them they are guessed from the names of parts of the samples.
    """
    train = tables.get("train")
    if train is None:
        return Leaks()
    search = find_feature_leaks(train, setup.feature_names)
    return Leaks(
        search.leaks,
        tuple(find_identifiers(train, setup.feature_names)),
        compare_groups(tables, groups, raw_batches, setup.feature_names),
        _neighboring_sources(setup, tables),
        _oversampled_class(tables, duplicates),
        search.columns,
        len(train),
        search.detectable_noise,
        find_joint_scaling(tables, setup.feature_names),
        compare_times(tables, raw_batches, setup.feature_names),
    )


def _neighboring_sources(setup: Setup, tables: Mapping[str, SplitTable]) -> _NeighboringSources | None:
    """Return how similar validation samples are to their neighbors in the dataset; None if that is not defined."""
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    compared = {split: _number_as_read(tables[split], loader) for split, loader in loaders.items() if split in tables}
    if len(compared) < 2:
        return None
    try:
        similarity: NeighborSimilarity = Measurements(setup, tables=compared)["neighbor_similarity"]
    except (NotChecked, SetupError):
        return None
    return _NeighboringSources(similarity.mean_rank, len(similarity.pairs)) if similarity.pairs else None


def _number_as_read(table: SplitTable, loader: Any) -> SplitTable:
    """Return the rows with the indices that a checkup gives them: subsets of tensors are read from under the subset."""
    if not reads_tensor_dataset(loader):
        return table
    return replace(table, indices=resolve_subsets(loader.dataset, table.indices)[1])


def _oversampled_class(tables: Mapping[str, SplitTable], duplicates: Duplicates) -> _OversampledClass | None:
    """Return the class whose validation samples are copies of training samples while those of others are not."""
    val = tables.get("val")
    copies = {pair.second[1] for pair in duplicates.pairs if pair.is_across and pair.kind == "exact"}
    if val is None or val.labels is None or len(copies) < _MIN_COPIES:
        return None
    is_labeled = val.labels.numpy() >= 0  # others are ignored by the loss
    labels: NDArray[np.int64] = val.labels.numpy()[is_labeled]
    is_copy = np.isin(np.asarray(val.indices)[is_labeled], sorted(copies))
    if not len(labels):
        return None
    counts = np.bincount(labels)
    by_class = np.bincount(labels, is_copy, len(counts))
    label = int(by_class.argmax())
    others = int(counts.sum() - counts[label])
    if others < _MIN_COPIES:
        return None
    share, other_share = by_class[label] / counts[label], (by_class.sum() - by_class[label]) / others
    if share < _MIN_COPIED_SHARE or other_share > _MAX_OTHER_SHARE:
        return None
    return _OversampledClass(label, float(share), float(other_share), int(by_class[label]))
