"""Plain data of a data profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbdebug.tools.data.drift import DataDrift
from nbdebug.tools.data.split_profile import SplitProfile

if TYPE_CHECKING:
    from nbdebug.tools.data.view import CardGroup


@dataclass(frozen=True, eq=False)
class ProfileData:
    """What enters the model, from a seeded sample of each split.

    ``splits`` describe the leaves of the samples; ``examples`` are samples as they enter the model, and
    ``drift`` compares the splits. ``seed`` drew the
    samples.
    """

    splits: tuple[SplitProfile, ...]
    examples: tuple[CardGroup, ...] = ()
    drift: DataDrift = field(default_factory=lambda: DataDrift(()))
    notes: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    seed: int = 0
    seconds: float = 0.0
    stopped: bool = False

    def get_split(self, split: str) -> SplitProfile | None:
        """Return the profile of a split, "train", "val" or "reference"; None if there is none."""
        return next((item for item in self.splits if item.split == split), None)

    @property
    def is_labeled(self) -> bool:
        """True if a split has class counts."""
        return any(split.class_counts for split in self.splits)

    def class_name(self, number: int) -> str:
        """Return the name of a class, or its number."""
        return self.class_names[number] if 0 <= number < len(self.class_names) else str(number)


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
