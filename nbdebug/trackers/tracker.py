"""The interface of a tracker, and a histogram as trackers take it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.finding import Finding
from nbdebug.tensors.histogram_bins import bin_edges, bin_shares

Row = tuple[int, Mapping[str, float]]  # a step, and its numbers by name
_EDGES = np.concatenate([-bin_edges()[::-1], bin_edges()])


@dataclass(frozen=True)
class Histogram:
    """The percentage of values in each bin, and the edges of the bins, one more; both without empty ends."""

    edges: NDArray[np.float64]
    percentages: NDArray[np.float64]

    @classmethod
    def from_packed(cls, packed_bins: NDArray[np.uint8]) -> Histogram | None:
        """Return the histogram of a row of a record; None if it has no values."""
        filled = np.flatnonzero(packed_bins)
        if not len(filled):
            return None
        start, end = int(filled[0]), int(filled[-1]) + 1
        return cls(_EDGES[start : end + 1], 100 * bin_shares(packed_bins)[start:end])

    @property
    def centers(self) -> NDArray[np.float64]:
        """The middle of each bin."""
        return np.asarray((self.edges[1:] + self.edges[:-1]) / 2)


class Tracker(ABC):
    """A run that the user has opened in a tracker, and closes; nbdebug only adds to it.

    ``max_points`` bounds the points of one curve in one update: a tracker that is slow per number takes fewer.
    """

    max_points: ClassVar[int] = 400

    @abstractmethod
    def add_rows(self, rows: Sequence[Row]) -> None:
        """Add numbers, in the order of their steps."""

    @abstractmethod
    def add_histograms(self, step: int, histograms: Mapping[str, Histogram]) -> None:
        """Add histograms of one step by name."""

    @abstractmethod
    def add_findings(self, step: int, findings: Sequence[Finding]) -> None:
        """Replace the findings as of a step, by rank."""

    @abstractmethod
    def add_files(self, folder: Path) -> None:
        """Add the files of a folder, which is deleted afterwards; nothing is added after this call."""


def findings_as_markdown(findings: Sequence[Finding]) -> str:
    """Return the findings, each in a block of code, whose text no renderer changes."""
    if not findings:
        return "No findings."
    return "\n\n".join("\n".join(f"    {line}" for line in str(finding).splitlines()) for finding in findings)
