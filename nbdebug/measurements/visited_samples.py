"""How many samples of its dataset a training loader visits in an epoch, and how often each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch.utils.data.distributed import DistributedSampler

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.loaders import (
    MAX_SAMPLER_INDICES,
    dataset_length,
    get_visited_indices,
    is_map_style,
    iterate_sampler_indices,
)

REPEATED = 2.0  # a sampler that visits each of its few samples this often repeats them
_MIN_SAMPLES = 50
_NEW_SHARE = 1.2  # two epochs of a sampler that draws other samples each time visit more than this multiple of one


@dataclass(frozen=True)
class VisitedSamples:
    """What the sampler of the training loader draws in an epoch.

    ``available`` counts the samples that the validation loader does not take from the same dataset. ``changes`` is true
    if another epoch draws other samples.
    """

    draws: int
    distinct: int
    available: int
    samples: int
    changes: bool

    def leaves_out_most(self, share: float = 0.5) -> bool:
        """Return whether every epoch visits the same samples, less than ``share`` of those available."""
        return self.samples >= _MIN_SAMPLES and self.distinct < share * self.available and not self.changes

    @property
    def repeats(self) -> float:
        """How often an epoch visits each of its samples on average."""
        return self.draws / max(self.distinct, 1)


@measurement
def visited_samples(setup: Setup) -> VisitedSamples:
    """The samples that an epoch of the training loader visits, by the indices of its sampler."""
    loader, samples = setup.train_loader, dataset_length(setup.train_loader)
    if samples is None or not is_map_style(loader):
        raise NotChecked("the samples of the training loader cannot be counted")
    if isinstance(loader.sampler, DistributedSampler):
        raise NotChecked("each rank visits a part of the dataset")
    visited = set(get_visited_indices(loader))
    others = _validation_indices(setup) - visited
    if len(visited) == samples:
        return VisitedSamples(samples, samples, samples, samples, changes=False)
    draws = sum(1 for _ in islice(iterate_sampler_indices(loader), MAX_SAMPLER_INDICES))
    changes = len(visited | set(get_visited_indices(loader))) > _NEW_SHARE * len(visited)
    return VisitedSamples(draws, len(visited), samples - len(others), samples, changes)


def _validation_indices(setup: Setup) -> set[Any]:
    """Return the indices that the validation loader visits in the dataset of the training loader."""
    loader = setup.val_loader
    if not is_map_style(loader) or loader.dataset is not setup.train_loader.dataset:
        return set()
    return set(get_visited_indices(loader))
