"""Histograms of the features and counts of the classes of all splits, on the same bins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.formatting import format_value, round_number
from nbdebug.tools.data.comparison_features import FeatureColumn
from nbdebug.tools.data.split_profile import SPLIT_NAMES

_BINS, _MAX_CATEGORIES = 20, 20
_OUTER_SHARE, _MAX_STRETCH = 0.005, 3.0
_BLOCKS = "▁▂▃▄▅▆▇█"

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FeatureDistribution:
    """The distribution of one feature in each split.

    ``bins`` are the names of the categories or classes, or the edges of the intervals of numbers, one more than there
    are intervals. ``counts`` are the samples in each bin by split. ``is_cut`` says that the outer intervals also hold
    the values beyond them, or that rarer categories are left out, and ``is_shifted`` that the drift of the feature is
    significant.
    """

    title: str
    bins: tuple[str, ...] | tuple[float, ...]
    counts: tuple[tuple[str, tuple[int, ...]], ...]
    is_cut: bool = False
    is_shifted: bool = False

    @property
    def is_category(self) -> bool:
        """True if the bins are categories."""
        return bool(self.bins) and isinstance(self.bins[0], str)

    @property
    def extent(self) -> str:
        """The range of the bins, or their number, in words."""
        if self.is_category:
            return f"the {len(self.bins)} most common values" if self.is_cut else f"{len(self.bins)} values"
        low, high = format_value(self.bins[0]), format_value(self.bins[-1])
        if low == high:
            return f"always {low}"
        return f"{low} or less to {high} or more" if self.is_cut else f"{low} to {high}"

    def shares(self) -> dict[str, list[float]]:
        """Return the share of the samples of each split that lie in each bin."""
        return {split: [count / max(sum(counts), 1) for count in counts] for split, counts in self.counts}

    def to_text(self) -> str:
        """Return the title, the range and a bar of characters for each split."""
        shares = self.shares()
        top = max((share for split in shares.values() for share in split), default=0.0) or 1.0
        bars = [f"{SPLIT_NAMES[split]} {_draw_bar(values, top)}" for split, values in shares.items()]
        return f"{self.title}, {self.extent}: {', '.join(bars)}"

    def state(self) -> dict[str, object]:
        """Return the counts as JSON."""
        bins = list(self.bins) if self.is_category else [round_number(float(edge)) for edge in self.bins]
        counts = [[SPLIT_NAMES[split], list(counts)] for split, counts in self.counts]
        return {"title": self.title, "extent": self.extent, "bins": bins, "counts": counts, "shifted": self.is_shifted}


def _draw_bar(shares: Sequence[float], top: float) -> str:
    """Return one character for each share; that of an empty bin is a dot."""
    last = len(_BLOCKS) - 1
    return "".join(_BLOCKS[min(int(share / top * last + 0.5), last)] if share else "·" for share in shares)


def measure_distributions(
    columns: Mapping[str, Sequence[FeatureColumn]],
    class_counts: Mapping[str, Mapping[int, int]],
    class_names: Sequence[str],
    shifted: Collection[str],
) -> tuple[FeatureDistribution, ...]:
    """Return the classes, and the distributions of the features by split, the ``shifted`` ones first.

    Classes are counted over all samples that were read, and features over the ``columns`` of those that were stored.
    """
    by_title: dict[str, dict[str, FeatureColumn]] = {}
    for split, listed in columns.items():
        for column in listed:
            by_title.setdefault(column.title, {})[split] = column
    classes = _count_classes(class_counts, class_names, "target" in shifted)
    titles = sorted(
        (title for title in by_title if not (classes and title == "target")), key=lambda name: name not in shifted
    )
    features = [_measure(title, by_title[title], title in shifted) for title in titles]
    return (*classes, *features)


def _count_classes(
    counts: Mapping[str, Mapping[int, int]], names: Sequence[str], is_shifted: bool
) -> list[FeatureDistribution]:
    """Return the samples of the most common classes of each split; an empty list without classes."""
    total: dict[int, int] = {}
    for by_class in counts.values():
        for label, count in by_class.items():
            total[label] = total.get(label, 0) + count
    common = sorted(sorted(total, key=lambda label: -total[label])[:_MAX_CATEGORIES])
    if not common:
        return []
    named = tuple(names[label] if 0 <= label < len(names) else str(label) for label in common)
    rows = tuple((split, tuple(by_class.get(label, 0) for label in common)) for split, by_class in counts.items())
    return [FeatureDistribution("classes", named, rows, len(total) > len(common), is_shifted)]


def _measure(title: str, columns: Mapping[str, FeatureColumn], is_shifted: bool) -> FeatureDistribution:
    values = {split: column.values[np.isfinite(column.values)] for split, column in columns.items()}
    joined = np.concatenate(list(values.values()))
    if all(column.is_category for column in columns.values()):
        codes, totals = np.unique(joined, return_counts=True)
        common = np.sort(codes[np.argsort(-totals, kind="stable")[:_MAX_CATEGORIES]])
        rows = tuple((split, tuple(int((part == code).sum()) for code in common)) for split, part in values.items())
        names = tuple(f"{code:.0f}" for code in common)
        return FeatureDistribution(title, names, rows, len(codes) > len(common), is_shifted)
    edges, is_cut = _find_edges(joined)
    rows = tuple((split, _count(part, edges)) for split, part in values.items())
    return FeatureDistribution(title, tuple(edges.tolist()), rows, is_cut, is_shifted)


def _find_edges(values: _Floats) -> tuple[_Floats, bool]:
    """Return the edges of the intervals, and whether single values far out lie beyond them."""
    if not len(values):
        return np.array([0.0, 1.0]), False
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = np.quantile(values, [_OUTER_SHARE, 1 - _OUTER_SHARE])
    is_cut = high - low > _MAX_STRETCH * (inner_high - inner_low) > 0
    if is_cut:
        low, high = float(inner_low), float(inner_high)
    if not high > low:
        return np.array([low, high]), False
    return np.linspace(low, high, _BINS + 1), is_cut


def _count(values: _Floats, edges: _Floats) -> tuple[int, ...]:
    """Return the number of values in each interval; the outer ones hold those beyond them."""
    positions = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
    return tuple(np.bincount(positions, minlength=len(edges) - 1).tolist())
