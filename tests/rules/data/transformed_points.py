"""Points with a transform that gets the index of the sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset


class TransformedPoints(Dataset[Any]):
    """Points that a function transforms."""

    def __init__(self, transform: Callable[[Tensor, int], Tensor]) -> None:
        self.transform, self.x = transform, torch.randn(64, 4)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.x[index], index), index % 3
