"""A data set of dictionary samples."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils.data import Dataset


class DictDataset(Dataset[dict[str, Tensor]]):
    """Samples as dictionaries; ``attributes`` become attributes of the data set, such as class names."""

    def __init__(
        self, x: Tensor, y: Tensor, input_key: str = "x", target_key: str = "labels", **attributes: Any
    ) -> None:
        self.x, self.y, self.input_key, self.target_key = x, y, input_key, target_key
        self.__dict__.update(attributes)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {self.input_key: self.x[index], self.target_key: self.y[index]}
