"""The sample at which a worker of a loader hangs, found by reading the dataset in this process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from nbdebug.preserve import Preserve
from nbdebug.setup.time_limit import UserCodeTimeout, time_limit
from nbdebug.source.location import SourceLine

SAMPLE_SECONDS, SEARCH_SECONDS = 3.0, 10.0


@dataclass(frozen=True)
class _StuckSampleSearch:
    """Samples that were read in this process: ``tried`` of them, until ``index`` did not return in time.

    ``line`` is the user's line at which it was interrupted; ``index`` is None if all returned.
    """

    tried: int
    index: int | None = None
    line: SourceLine | None = None


def find_stuck_sample(dataset: Any) -> _StuckSampleSearch:
    """Read the samples of a map-style dataset in order, each for up to 3 s and all for up to 10 s.

    Samples that raise are passed over. The random state is restored.
    """
    end, size = time.monotonic() + SEARCH_SECONDS, len(dataset)
    with Preserve():
        for index in range(size):
            try:
                with time_limit(SAMPLE_SECONDS):
                    dataset[index]
            except UserCodeTimeout as error:
                return _StuckSampleSearch(index, index, error.line)
            except Exception:  # a sample that raises does not hang
                pass
            if time.monotonic() > end:
                return _StuckSampleSearch(index + 1)
    return _StuckSampleSearch(size)
