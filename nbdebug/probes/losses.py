"""The backward passes of a running loop, and the losses that they start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

Roots = tuple[Tensor, ...]


@contextmanager
def backwards(begins: Callable[[Roots], Any], done: Callable[[Roots], None]) -> Iterator[None]:
    """A block in which each ``backward()`` is told of before and after it runs, with the tensors that it starts from.

    Of the end of one it is not told where ``begins`` gives True.
    ``torch.autograd.backward``, which every tensor's ``backward`` calls, is put back when the block ends.
    """
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        roots = (tensors,) if isinstance(tensors, Tensor) else tuple(one for one in tensors if isinstance(one, Tensor))
        known = begins(roots)
        original(tensors, *args, **kwargs)
        if known is not True:
            done(roots)

    torch.autograd.backward = backward
    try:
        yield
    finally:
        torch.autograd.backward = original
