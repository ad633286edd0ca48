"""Which split the input of a forward pass belongs to, by the memory of the datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.write_trace import is_plain_tensor
from nbdebug.setup import Setup
from nbdebug.tensors.pytree import tree_tensors

_OTHER = {"train": "val", "val": "train"}
_MAX_TENSORS = 8  # of a list or tuple that a dataset holds
_Region = tuple[str, int, int]


class SplitMemory:
    """The memory of the tensors that the datasets of a setup hold.

    A loop that passes a part of such a tensor to the model uses that split, whatever batch a loader has yielded last.
    Memory that belongs to both splits identifies none.
    """

    def __init__(self, setup: Setup) -> None:
        loaders = {"train": setup.train_loader, "val": setup.val_loader}
        regions = {split: set(_regions(getattr(loader, "dataset", None))) for split, loader in loaders.items()}
        self.regions = {
            split: [region for region in own if not any(_overlap(region, other) for other in regions[_OTHER[split]])]
            for split, own in regions.items()
        }

    def find_split(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], default: str) -> str:
        """Return the split that the inputs of a pass belong to, "train" or "val"; else ``default``."""
        if not any(self.regions.values()):
            return default
        for tensor in tree_tensors((args, dict(kwargs))):
            region = _region(tensor)
            for split, known in self.regions.items():
                if region and any(_overlap(region, item) for item in known):
                    return split
        return default


def _regions(dataset: Any) -> Iterator[_Region]:
    """Yield the memory of the tensors among the attributes of a dataset."""
    values = vars(dataset).values() if hasattr(dataset, "__dict__") else ()
    for value in values:
        tensors = value if isinstance(value, (list, tuple)) and len(value) < _MAX_TENSORS else (value,)
        for tensor in tensors:
            if isinstance(tensor, Tensor) and (region := _region(tensor)):
                yield region


def _region(tensor: Tensor) -> _Region | None:
    """Return the device of a tensor, and the addresses of its first value and of the end of its last one."""
    if not is_plain_tensor(tensor) or tensor.layout is not torch.strided or tensor.is_nested or not tensor.numel():
        return None
    span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    start = tensor.data_ptr()
    return str(tensor.device), start, start + span * tensor.element_size()


def _overlap(left: _Region, right: _Region) -> bool:
    return left[0] == right[0] and left[1] < right[2] and right[1] < left[2]
