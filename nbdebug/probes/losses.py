"""The loss of a running loop: the root of each backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


@contextmanager
def losses(emit: Callable[[Tensor], None]) -> Iterator[None]:
    """A block in which ``emit`` gets the detached scalar that each ``backward()`` starts from, on its device.

    ``torch.autograd.backward``, which every tensor's ``backward`` calls, is put back when the block ends.
    """
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        roots = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
        seen = [root.detach().reshape(()) for root in roots if isinstance(root, Tensor) and root.numel() == 1]
        original(tensors, *args, **kwargs)
        for root in seen:
            emit(root)

    torch.autograd.backward = backward
    try:
        yield
    finally:
        torch.autograd.backward = original
