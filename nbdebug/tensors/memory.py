"""Where the values of a tensor lie in memory."""

from __future__ import annotations

import torch
from torch import Tensor


def memory_address(tensor: Tensor) -> int:
    """Return the address of the memory of a tensor; the same for its views.

    A tensor without memory, such as a sparse one or a sample inside ``torch.vmap``, has an address of its own.
    """
    return tensor.untyped_storage().data_ptr() if torch._C._has_storage(tensor) else id(tensor)


def share_memory(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors use the same memory, as a tensor and its views do."""
    return memory_address(first) == memory_address(second)
