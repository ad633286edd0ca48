"""Buffers that a forward pass writes to, as they were before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

MOST_BYTES = 1 << 20


class Buffers:
    """Copies of the buffers that change from pass to pass, made when they have; large ones are left out.

    Running statistics are left out too: in training a norm writes them and does not read them.
    """

    def __init__(self, model: nn.Module) -> None:
        owners = (module for module in model.modules() if not isinstance(module, _NormBase))
        buffers = {id(one): one for owner in owners for one in owner.buffers(recurse=False)}
        plain = [one for one in buffers.values() if not one.is_inference() and one.layout == torch.strided]
        small = sum(one.numel() * one.element_size() for one in plain) <= MOST_BYTES
        self.held = plain if small else []
        self.copies = {id(one): (one._version, one.clone()) for one in self.held}

    def look(self) -> None:
        """Copies those that were written to since the last look."""
        for one in self.held:
            if self.copies[id(one)][0] != one._version:
                self.copies[id(one)] = (one._version, one.clone())

    def before(self, tensor: Tensor) -> Tensor | None:
        """The copy of a buffer, if there is one."""
        found = self.copies.get(id(tensor))
        return found[1] if found else None
