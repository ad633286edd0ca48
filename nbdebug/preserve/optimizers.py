"""Optimizers: their state is as large as the model or twice that, and is copied only when it is about to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nbdebug.preserve.objects import KeptObject
from nbdebug.preserve.tensors import KeptTensor


class KeptOptimizer(KeptObject):
    """An optimizer of torch's kind. The tensors of its state are copied at the first step inside the block.

    Nothing but a step changes them in place; what did so all the same cannot be undone, and is told.
    """

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.moments = list(moments(thing)) if getattr(type(thing).step, "hooked", False) else []
        self.versions = [version(one) for one in self.moments]
        self.copies: list[KeptTensor] = []
        self.handle: Any = None

    def claimed(self) -> Iterator[Any]:
        """The tensors of the state, which need no other copy."""
        yield from self.moments

    def set_aside(self) -> None:
        """Wait for the first step."""
        if self.moments:
            self.handle = self.thing.register_step_pre_hook(lambda *_: self.copy())

    def copy(self) -> None:
        """Copy the state, once."""
        if not self.copies:
            with torch.inference_mode(False), torch.no_grad():
                self.copies = [KeptTensor(one) for one in self.moments]

    def restore(self) -> None:
        """Put attributes and state back."""
        if self.handle is not None:
            self.handle.remove()
        super().restore()
        for one in self.copies:
            one.restore()
        if not self.copies and [version(one) for one in self.moments] != self.versions:
            raise RuntimeError("its state was changed in place by something else than its step")


def moments(optimizer: Any) -> Iterator[Tensor]:
    """The tensors in the state of an optimizer."""
    for state in optimizer.state.values():
        if isinstance(state, dict):
            yield from (one for one in state.values() if isinstance(one, Tensor))


def version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; 0 for one of inference mode, which does not count."""
    return 0 if tensor.is_inference() else tensor._version
