"""Targets that are random numbers, drawn again whenever a sample is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nbdebug.measurements.collation import read_samples
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line, pairing_line
from nbdebug.setup.loaders import is_map_style
from nbdebug.source.location import SourceLine

_MIN_VALUES, _MIN_CHANGED, _MAX_SIGMAS = 30, 0.9, 3.0


@dataclass(frozen=True)
class RedrawnTargets:
    """The targets of some samples in two reads: the share of other values, and their ``correlation``."""

    samples: int
    changed: float
    correlation: float
    line: SourceLine | None


class RedrawnTargetSearch:
    """Reads samples when it is first asked, since few runs need them."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @cached_property
    def targets(self) -> RedrawnTargets | None:
        """The targets that are drawn again; None if there are none."""
        return _find_redrawn_targets(self.setup)


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
    seed_all(seed)
    target = setup.split_batch(loader.collate_fn(read_samples(loader)), None).target
    is_real = isinstance(target, Tensor) and target.is_floating_point() and target.dim() > 0
    return target.double() if is_real and isinstance(target, Tensor) else None


def _correlate(first: Tensor, second: Tensor) -> float:
    """Return the correlation of two reads, each less the mean over the samples."""
    first, second = (values - values.mean(0) for values in (first, second))
    scale = float(first.norm() * second.norm())
    return float((first * second).sum()) / scale if scale else 1.0
