"""Plain data of a data profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbdebug.tools.data.distributions import FeatureDistribution
from nbdebug.tools.data.drift import DataDrift
from nbdebug.tools.data.duplicates import DuplicatePair, Duplicates
from nbdebug.tools.data.leaks import Leaks
from nbdebug.tools.data.loader_facts import LoaderFacts
from nbdebug.tools.data.sample_quality import UnusualSamples
from nbdebug.tools.data.split_profile import SplitProfile
from nbdebug.tools.data.suspects import LabelReview
from nbdebug.tools.data.unknown_tokens import UnknownTokens
from nbdebug.validation import argument_error

if TYPE_CHECKING:
    from nbdebug.tools.data.view import CardGroup
    from nbdebug.tools.errors import Errors

BrowseSplit = Callable[[str], "Errors"]
DEFAULT_REASONS = ("duplicates", "overlap")
_REASONS = (*DEFAULT_REASONS, "near", "suspects", "raters", "unusual")


@dataclass(frozen=True, eq=False)
class ProfileData:
    """The data that enter the model, described by a seeded sample of each split.

    ``splits`` describe the leaves of the samples; ``examples`` are samples as they enter the model, ``drift`` compares
    the splits, and ``distributions`` holds the histograms of their features and the counts of their classes.
    ``duplicates`` are pairs of samples, ``labels`` holds the suspect labels, and ``leaks`` what of the target and of
    validation is visible in training. ``unknown_tokens`` are their shares by split, and ``unusual`` are images and
    series that stand out, among the samples counted in ``unusual_rows``. ``galleries`` show pairs, suspects and unusual
    samples, by the name of the panel. ``loaders`` are the facts of the loaders, and ``cut_off_limits`` say by split why
    cut off images would not be noticed, "" if they would. ``seed`` drew the samples. ``_browse`` returns the error
    browser of a split, when the page asks for it.
    """

    splits: tuple[SplitProfile, ...]
    examples: tuple[CardGroup, ...] = ()
    drift: DataDrift = field(default_factory=lambda: DataDrift(()))
    duplicates: Duplicates = field(default_factory=Duplicates)
    labels: LabelReview = field(default_factory=LabelReview)
    leaks: Leaks = field(default_factory=Leaks)
    unknown_tokens: tuple[UnknownTokens, ...] = ()
    unusual: tuple[UnusualSamples, ...] = ()
    unusual_rows: tuple[tuple[str, int], ...] = ()
    galleries: tuple[tuple[str, CardGroup], ...] = ()
    distributions: tuple[FeatureDistribution, ...] = ()
    loaders: tuple[LoaderFacts, ...] = ()
    cut_off_limits: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    seed: int = 0
    seconds: float = 0.0
    stopped: bool = False
    _browse: BrowseSplit | None = field(default=None, repr=False)
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def browsable_splits(self) -> list[str]:
        """The splits whose samples the error browser can show: those of the setup whose samples have an index."""
        if self._browse is None:
            return []
        return [item.split for item in self.splits if item.is_random and item.split != "reference"]

    def get_split(self, split: str) -> SplitProfile | None:
        """Return the profile of a split, "train", "val" or "reference"; None if there is none."""
        return next((item for item in self.splits if item.split == split), None)

    def drop_list(self, split: str = "train", reasons: Sequence[str] = DEFAULT_REASONS) -> list[int]:
        """Return the dataset indices of a split to leave out, ascending, for any of the reasons.

        "duplicates" are later exact copies within the split, "overlap" are samples that are in the other split too,
        exactly, by index or as an overlapping window, "near" are near duplicates, also by embedding, and crops,
        "suspects" are suspect labels, "raters" are labels that the raters contradict, and "unusual" are dark, bright or
        cut off images and clipped or frozen series. Raises SetupError for an unknown reason, and for a split whose
        samples have no index.
        """
        unknown = [reason for reason in reasons if reason not in _REASONS]
        if isinstance(reasons, str) or unknown:
            raise argument_error("reasons", reasons, f"a list of {', '.join(_REASONS)}", "Choose some of them")
        profile = self.get_split(split)
        if profile is None or not profile.is_random:
            raise argument_error("split", split, "a split whose samples have an index", "Use a map-style dataset")
        dropped = {index for pair in self.duplicates.pairs for index in _dropped_by_pair(pair, split, reasons)}
        if "suspects" in reasons:
            dropped |= {suspect.index for suspect in self.labels.suspects if suspect.split == split}
        if "raters" in reasons:
            listed = (item for review in self.labels.raters for item in review.contradicted)
            dropped |= {item.index for item in listed if item.split == split}
        if "unusual" in reasons:
            dropped |= {index for item in self.unusual if item.split == split for index in item.indices}
        return sorted(dropped)

    def class_name(self, number: int) -> str:
        """Return the name of a class, or its number."""
        return self.class_names[number] if 0 <= number < len(self.class_names) else str(number)


def _dropped_by_pair(pair: DuplicatePair, split: str, reasons: Sequence[str]) -> list[int]:
    """Return the indices of a pair that are left out of a split."""
    reason = "near" if pair.kind in ("near", "crop", "embedding") else "overlap" if pair.is_across else "duplicates"
    if reason not in reasons:
        return []
    if pair.is_across:
        return [index for name, index in (pair.first, pair.second) if name == split]
    return [pair.second[1]] if pair.second[0] == split else []


def feature_rows_of_split(split: SplitProfile) -> list[dict[str, Any]]:
    """Return one row for each feature of a split, and one for a leaf without numbers."""
    rows = []
    for leaf in split.leaves:
        shared = {
            "split": split.split,
            "role": leaf.role,
            "leaf": leaf.name,
            "dtype": leaf.kind,
            "shape": leaf.shape_text,
            "samples": leaf.samples,
            "distinct": leaf.distinct,
            "padding": leaf.padding,
        }
        for feature in leaf.features:
            statistics = {name: value for name, value in vars(feature).items() if name != "name"}
            rows.append({**shared, "feature": feature.name, **statistics, "constant": feature.is_constant})
        if not leaf.features:
            rows.append({**shared, "missing": leaf.missing})
    return rows
