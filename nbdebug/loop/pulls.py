"""Which gradients are there, and which a backward pass has added to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


@torch.no_grad()
def pulled(parameters: Sequence[Tensor]) -> list[bool]:
    """Whether each parameter has a gradient that is not zero; waits for the device.

    All norms are taken at once; only where one is zero, which squares of tiny values can be, are the values looked at.
    """
    found = [dense(p.grad) for p in parameters]
    there = [one for one in found if one is not None and one.numel()]
    norms = iter(fetched(torch._foreach_norm(there)) if there else ())
    answers = []
    for one in found:
        if one is None or not one.numel():
            answers.append(False)
        else:
            answers.append(next(norms) != 0 or bool(one.any()))
    return answers


def dense(gradient: Tensor | None) -> Tensor | None:
    """A gradient, or the values that a sparse one holds."""
    if gradient is None or not gradient.is_sparse:
        return gradient
    return gradient.coalesce().values()


class Touch:
    """The gradients as they are before a backward pass, to tell afterwards whether it added to any."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        grads = [p.grad for p in parameters]
        versions = [0 if one is None else one._version for one in grads]
        self.before = list(zip(parameters, grads, versions, strict=True))

    @property
    def added(self) -> bool:
        """Whether a gradient is another one than before, or was changed in place."""
        return any(p.grad is not old or (old is not None and old._version != at) for p, old, at in self.before)


def fetched(values: Sequence[Tensor]) -> tuple[float, ...]:
    """Numbers that lie on a device, brought at once."""
    return tuple(torch.stack([one.detach().float().to(values[0].device) for one in values]).tolist()) if values else ()
