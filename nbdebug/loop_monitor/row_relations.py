"""Compare the rows of two tensors: equal, scaled, or in another order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_MAX_ROWS, _MAX_POSITIONS = 1024, 32  # rows of a tensor, and values of each row, that are compared
_MIN_ROWS, _MIN_VALUES = 4, 32  # fewer rows or values can agree by chance after standardization
_TOLERANCE = 1e-3  # of a standard deviation; float32 rounding after a scaling stays below this
_MIN_MOVED_SHARE = 0.5  # rows at another position; a random permutation moves nearly all


@dataclass(frozen=True)
class RowSample:
    """Values at fixed positions of each row of a tensor, and the number of values of a row."""

    values: Tensor
    row_size: int

    @classmethod
    @torch.no_grad()
    def of(cls, tensor: Tensor) -> RowSample | None:
        """Sample a tensor; None if it has no rows, too many rows, or values that cannot be compared."""
        if (
            tensor.layout is not torch.strided
            or tensor.is_complex()
            or tensor.is_nested
            or not tensor.dim()
            or not tensor.numel()
            or len(tensor) > _MAX_ROWS
        ):
            return None
        row_size = tensor[0].numel()
        stride = max(1, row_size // _MAX_POSITIONS) | 1  # odd, so that no column of an image is favored
        positions = torch.arange(0, row_size, stride, device=tensor.device)[: 2 * _MAX_POSITIONS]
        # Indexing reads only these values; flattening would copy a tensor that is not contiguous.
        index = torch.unravel_index(positions, tensor.shape[1:]) if tensor.dim() > 1 else (None,)
        return cls(tensor.detach()[(slice(None), *index)].to("cpu", torch.float64, copy=True), row_size)

    def __len__(self) -> int:
        return len(self.values)

    def is_comparable_with(self, other: RowSample) -> bool:
        """Check whether both have the same number of rows and values."""
        return self.values.shape == other.values.shape and self.row_size == other.row_size

    def equals(self, other: RowSample, tolerance: float = 1e-5) -> bool:
        """Check whether the values are equal up to rounding."""
        return self.is_comparable_with(other) and torch.allclose(
            self.values, other.values, rtol=tolerance, atol=tolerance / 10
        )


@dataclass(frozen=True)
class RowRelation:
    """How the rows of a tensor derive from those of another: scaled, shifted, and taken in some ``order``.

    ``order`` holds for each row the row of the other tensor that it equals; None if the order is the same.
    """

    scale: float = 1.0
    offset: float = 0.0
    order: Tensor | None = None

    @property
    def is_identity(self) -> bool:
        """True if neither the values nor the order differ."""
        return self.order is None and abs(self.scale - 1) < _TOLERANCE and abs(self.offset) < _TOLERANCE


@torch.no_grad()
def find_row_relation(rows: RowSample, reference: RowSample) -> RowRelation | None:
    """Return how some rows derive from reference rows; None if they do not, or if too few values decide.

    Each position is standardized over the rows, which removes any scale and offset and does not depend on the order.
    """
    if not rows.is_comparable_with(reference):
        return None
    if rows.equals(reference):
        return RowRelation()
    varying = (reference.values.std(0) > 0) & (rows.values.std(0) > 0) if len(rows) > 1 else None
    if varying is None or len(rows) < _MIN_ROWS or len(rows) * int(varying.sum()) < _MIN_VALUES:
        return None
    selected, reference_values = rows.values[:, varying], reference.values[:, varying]
    standardized, standardized_reference = _standardize(selected), _standardize(reference_values)
    if not bool(standardized.isfinite().all() and standardized_reference.isfinite().all()):
        return None
    scale = float((selected.std(0) / reference_values.std(0)).median())
    offset = float((selected.mean(0) - scale * reference_values.mean(0)).median())
    if _is_close(standardized, standardized_reference):
        return RowRelation(scale, offset)
    if not _is_close(standardized[:, 0].sort().values, standardized_reference[:, 0].sort().values):
        return None
    distances, order = torch.cdist(standardized, standardized_reference).min(1)
    in_place = (standardized - standardized_reference).abs().amax(1) < _TOLERANCE
    is_permuted = bool((distances < _TOLERANCE * standardized.shape[1] ** 0.5).all())
    if is_permuted and float((~in_place).double().mean()) > _MIN_MOVED_SHARE:
        return RowRelation(scale, offset, order)
    return None


def _standardize(values: Tensor) -> Tensor:
    return (values - values.mean(0)) / values.std(0)


def _is_close(values: Tensor, reference: Tensor) -> bool:
    return float((values - reference).abs().max()) < _TOLERANCE


@torch.no_grad()
def is_reordered(targets: RowSample, reference: RowSample, *, min_moved: float = 0.1) -> bool:
    """Check whether targets are those of the reference in another order.

    Targets repeat, so an order cannot be read from them; the same values at other rows are enough.
    """
    if not targets.is_comparable_with(reference) or len(targets) < 2 * _MIN_ROWS:
        return False
    moved = (targets.values != reference.values).any(1).double().mean()
    weights = torch.linspace(1, 2, targets.values.shape[1], dtype=torch.float64)
    sums, reference_sums = ((sample.values @ weights).sort().values for sample in (targets, reference))
    return float(moved) >= min_moved and torch.allclose(sums, reference_sums)
