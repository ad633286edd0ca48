"""Standardized inputs of which only whole numbers are left, so that different samples have equal inputs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.truncation_lines import truncation_line
from nbdebug.source.location import SourceLine
from nbdebug.tensors.row_search import get_row_keys

_MIN_SAMPLES, _MAX_MAGNITUDE = 50, 20
_MAX_MEAN, _MIN_STD, _MAX_STD = 0.5, 0.2, 1.6  # decimals cut off from numbers of mean 0 and standard deviation 1
_MIN_SIGNED_SHARE = 0.5  # of the columns, that have values of both signs; a skewed one may lack small ones


@dataclass(frozen=True)
class TruncatedInputs:
    """Training inputs that are standardized and whole numbers from ``low`` to ``high``, and the line at fault.

    ``samples`` have ``distinct`` inputs; ``conflicting`` of them have the input of another one and another target.
    """

    samples: int
    distinct: int
    conflicting: int
    low: int
    high: int
    line: SourceLine

    @property
    def share(self) -> float:
        """The share of the samples whose input another one has with another target."""
        return self.conflicting / self.samples


@measurement
def truncated_inputs(setup: Setup, tables: dict[str, SplitTable]) -> TruncatedInputs | None:
    """Training inputs whose decimals a line of the program cuts off after it has standardized them; else None."""
    table = tables.get("train")
    if table is None or len(table) < _MIN_SAMPLES or not table.inputs or not table.targets:
        raise NotChecked(f"fewer than {_MIN_SAMPLES} training samples can be read")
    if not _look_standardized(table) or not table.may_have_equal_inputs:
        return None
    targets: dict[Hashable, list[Hashable]] = {}
    for key, target in zip(get_row_keys(table.inputs), get_row_keys(table.targets), strict=True):
        targets.setdefault(key, []).append(target)
    conflicting = sum(len(group) for group in targets.values() if len({*group}) > 1)
    line = truncation_line(setup) if conflicting else None
    if line is None:
        return None
    values = torch.cat([part.flatten() for part in table.inputs])
    return TruncatedInputs(len(table), len(targets), conflicting, int(values.min()), int(values.max()), line)


def _look_standardized(table: SplitTable) -> bool:
    """Return whether inputs are whole numbers with about the mean and deviation of standardized columns."""
    if not all(part.is_floating_point() and part.numel() for part in table.inputs):
        return False
    columns = torch.cat([part.reshape(len(part), -1) for part in table.inputs], 1)
    if any(bool((part != part.round()).any()) for part in (columns[:_MIN_SAMPLES], columns)):
        return False
    if float(columns.abs().max()) > _MAX_MAGNITUDE:
        return False
    varied = columns[:, columns.amin(0) < columns.amax(0)].double()
    deviations, means = varied.std(0), varied.mean(0)
    is_signed = (varied.amin(0) < 0) & (varied.amax(0) > 0)
    return (
        varied.shape[1] > 0
        and bool((means.abs() <= _MAX_MEAN).all())
        and bool(((deviations >= _MIN_STD) & (deviations <= _MAX_STD)).all())
        and float(is_signed.double().mean()) >= _MIN_SIGNED_SHARE
    )
