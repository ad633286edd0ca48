"""Targets that change whenever a sample is read: random numbers, or random changes of the target alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from nbdebug.measurements.collation import read_samples
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.data_lines import origin_line, pairing_line
from nbdebug.setup.loaders import get_visited_indices, is_map_style, reads_tensor_dataset
from nbdebug.setup.sample_functions import collating_object
from nbdebug.source.executed_lines import find_differing_line, find_discarding_line
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_MIN_VALUES, _MIN_CHANGED, _MAX_SIGMAS = 30, 0.9, 3.0
_MIN_VARIED_SAMPLES, _MIN_VARIED_SHARE = 16, 0.02
_MIN_AGREEMENT = 0.2  # correlation of real values, or Cohen's kappa of classes: less is drawn again by design, as pairs
_MAX_READS = 12
_MIN_PAIRS, _MAX_MAP_ERROR = 8, 1e-3  # of the spread of the mapped values
_MIN_RELATIVE_CHANGE = 0.1  # root mean square, relative to the spread over the samples; less may be meant as a jitter


@dataclass(frozen=True)
class RedrawnTargets:
    """The targets of some samples in two reads: the share of other values, and their ``correlation``."""

    samples: int
    changed: float
    correlation: float
    line: SourceLine | None


@dataclass(frozen=True)
class VariedTargets:
    """Samples with the same input and another target in two reads, for example ``values`` of the first of them.

    ``is_mirrored`` tells whether one linear function, such as 1 - x, maps all changed values of the first read to those
    of the second. ``line`` discards the result of a call (``is_discarded``), or only one of the reads executes it.
    """

    samples: int
    changed: int
    sample: int
    values: tuple[float, float]
    is_mirrored: bool
    is_discarded: bool
    line: SourceLine | None


class RedrawnTargetSearch:
    """Reads samples when it is first asked, since few runs need them."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @cached_property
    def targets(self) -> RedrawnTargets | None:
        """The targets that are drawn again; None if there are none."""
        return _find_redrawn_targets(self.setup)

    @cached_property
    def varied(self) -> VariedTargets | None:
        """The targets that change while the inputs of all samples stay the same; None if there are none."""
        return _find_varied_targets(self.setup)


@measurement
def redrawn_targets(setup: Setup) -> RedrawnTargetSearch:
    """A search for real-valued targets of training samples that have nothing in common between two reads."""
    return RedrawnTargetSearch(setup)


def _find_redrawn_targets(setup: Setup) -> RedrawnTargets | None:
    """Return real-valued targets of training samples that have nothing in common between two reads; None for others.

    The same samples are read and collated twice. Targets are drawn again if nine of ten values differ, and if the
    correlation of the two reads, each less the mean over the samples, is within three standard errors of zero.
    """
    loader = setup.train_loader
    if setup.step_fn is not None or not is_map_style(loader) or loader.batch_sampler is None:
        return None
    try:
        with Preserve(loader.dataset), torch.no_grad():
            first, second = (_read_target(setup, loader, seed) for seed in (1, 2))
            if first is None or second is None or first.shape != second.shape or first.numel() < _MIN_VALUES:
                return None
            changed, correlation = float((first != second).double().mean()), _correlate(first, second)
            if changed < _MIN_CHANGED or abs(correlation) > _MAX_SIGMAS / math.sqrt(first.numel()):
                return None
            return RedrawnTargets(
                len(first), changed, correlation, pairing_line(setup) or origin_line(setup, "targets")
            )
    except Exception:  # samples that are not readable or not collatable are reported elsewhere
        return None


def _read_target(setup: Setup, loader: Any, seed: int) -> Tensor | None:
    """Return the only target of the first samples; None if it is not real-valued."""
    target = _read_batch(setup, loader, seed).target
    is_real = isinstance(target, Tensor) and target.is_floating_point() and target.dim() > 0
    return target.double() if is_real and isinstance(target, Tensor) else None


def _find_varied_targets(setup: Setup) -> VariedTargets | None:
    """Return targets that change at random, while the inputs stay as they are; None for others.

    The samples are read and collated twice. Targets that have little in common between the reads are not reported: a
    dataset may draw another partner for each input by design.
    """
    loader = setup.train_loader
    if not is_map_style(loader) or loader.batch_sampler is None or reads_tensor_dataset(loader):
        return None
    try:
        with Preserve(loader.dataset, loaders=[collating_object(loader)]), torch.no_grad():
            first, second = (_read_batch(setup, loader, seed) for seed in (1, 2))
            inputs = [tree_tensors((batch.args, batch.kwargs)) for batch in (first, second)]
            if not inputs[0] or not all(map(_are_equal, *inputs)):
                return None
            targets = zip(tree_tensors(first.targets), tree_tensors(second.targets), strict=True)
            varied = next((pair for pair in targets if _varies_in_part(*pair)), None)
            if varied is None:
                return None
            is_changed = (varied[0] != varied[1]).reshape(len(varied[0]), -1)
            position = int(is_changed.any(1).nonzero()[0])
            index = next(islice(get_visited_indices(loader), position, None))
            before, after = (float(part.reshape(len(part), -1)[position][is_changed[position]][0]) for part in varied)
            pairs = torch.stack([part.reshape(len(part), -1)[is_changed].double() for part in varied])
            discarding = _find_discarding_line(loader.dataset, index)
            return VariedTargets(
                samples=len(is_changed),
                changed=int(is_changed.any(1).sum()),
                sample=index,
                values=(before, after),
                is_mirrored=varied[0].is_floating_point() and _is_linear_map(pairs),
                is_discarded=discarding is not None,
                line=discarding or _find_varying_line(loader.dataset, index),
            )
    except Exception:  # samples that are not readable or not collatable are reported elsewhere
        return None


def _read_batch(setup: Setup, loader: Any, seed: int) -> Batch:
    seed_all(seed)
    return setup.split_batch(loader.collate_fn(read_samples(loader)), None)


def _are_equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)


def _varies_in_part(first: Tensor, second: Tensor) -> bool:
    """Check whether a target changes clearly in some samples, and agrees with itself beyond chance."""
    if first.shape != second.shape or first.dim() == 0 or len(first) < _MIN_VARIED_SAMPLES:
        return False
    is_changed = (first != second).reshape(len(first), -1)
    if float(is_changed.any(1).double().mean()) < _MIN_VARIED_SHARE:
        return False
    if not first.is_floating_point():
        return _kappa(first.flatten(), second.flatten()) >= _MIN_AGREEMENT
    first, second = first.double(), second.double()
    spread = float((first - first.mean(0)).square().mean().sqrt())
    change = float((first - second).square().mean().sqrt())
    return change >= _MIN_RELATIVE_CHANGE * spread > 0 and _correlate(first, second) >= _MIN_AGREEMENT


def _kappa(first: Tensor, second: Tensor) -> float:
    """Return the agreement of two reads of classes beyond that by chance (Cohen 1960)."""
    classes = torch.cat([first, second]).unique()  # type: ignore[no-untyped-call]
    by_chance = sum(float((first == c).double().mean()) * float((second == c).double().mean()) for c in classes)
    return (float((first == second).double().mean()) - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


def _is_linear_map(pairs: Tensor) -> bool:
    """Check whether one linear function maps all first values of some pairs to the second ones, up to rounding."""
    first, second = (values - values.mean() for values in pairs)
    if pairs.shape[1] < _MIN_PAIRS or not float(first.norm()) > 0:
        return False
    slope = float((first * second).sum() / first.square().sum())
    return float((second - slope * first).norm()) < _MAX_MAP_ERROR * float(second.norm())


def _seeded_reads(dataset: Any, index: int) -> list[Callable[[], object]]:
    def read(seed: int) -> object:
        seed_all(seed)
        return dataset[index]

    return [partial(read, seed) for seed in range(_MAX_READS)]


def _find_discarding_line(dataset: Any, index: int) -> SourceLine | None:
    """Return the line of the user's code whose result a read of a sample discards."""
    return next(filter(None, map(find_discarding_line, _seeded_reads(dataset, index))), None)


def _find_varying_line(dataset: Any, index: int) -> SourceLine | None:
    """Return the first line of the user's code that only one of two reads of a sample executes."""
    first, *others = _seeded_reads(dataset, index)
    return next(filter(None, (find_differing_line(first, other) for other in others)), None)


def _correlate(first: Tensor, second: Tensor) -> float:
    """Return the correlation of two reads, each less the mean over the samples."""
    first, second = (values - values.mean(0) for values in (first, second))
    scale = float(first.norm() * second.norm())
    return float((first * second).sum()) / scale if scale else 1.0
