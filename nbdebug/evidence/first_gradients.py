"""The gradients of the first loss."""

from __future__ import annotations

import torch
from torch import Tensor

from nbdebug.errors import NotChecked
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.parameters import Entry


@measurement
def first_gradients(loss: Tensor, parameters: list[Entry]) -> dict[str, Tensor]:
    """The gradient of the first loss by the name of each trainable parameter that it reaches."""
    free = [one for one in parameters if one.parameter.requires_grad]
    if not loss.requires_grad or not free:
        raise NotChecked("the loss has no graph behind it" if free else "no parameter is trainable")
    found = torch.autograd.grad(loss, [one.parameter for one in free], retain_graph=True, allow_unused=True)
    dense = (None if one is None else one.to_dense() if one.is_sparse else one for one in found)
    return {one.name: gradient for one, gradient in zip(free, dense, strict=True) if gradient is not None}
