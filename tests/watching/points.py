"""Points of two classes."""

from __future__ import annotations

import torch
from torch import Tensor


def labeled_points(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return points in six dimensions; the sign of the first coordinate is the class."""
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > 0).long()
