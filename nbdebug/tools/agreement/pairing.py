"""Pair the parameters and buffers of two sides by name or by value."""

from __future__ import annotations

import torch
from torch import Tensor

from nbdebug.tools.agreement.result import Phase
from nbdebug.tools.agreement.sides import Side
from nbdebug.tools.agreement.tolerance import Deviation, tolerance


def tensor_pairs(first: Side, second: Side, phase: Phase) -> list[tuple[str, str]]:
    """Return the names of the parameters, or of the buffers, on both sides that belong together, the last first.

    Names are paired if they are equal and the shapes too, then those of equal values.
    """
    mine, theirs = (_named_tensors(side, phase) for side in (first, second))
    if mine.keys() == theirs.keys():
        return [(name, name) for name in reversed(mine)]
    named = [(name, name) for name in mine if name in theirs and theirs[name].shape == mine[name].shape]
    rest = {name: tensor for name, tensor in theirs.items() if (name, name) not in named}
    for name, tensor in mine.items():
        if (name, name) not in named and (other := _equal_tensor(tensor, rest)) is not None:
            rest.pop(other)
            named.append((name, other))
    order = list(mine)
    return sorted(named, key=lambda pair: -order.index(pair[0]))


def unequal_parameters(first: Side, second: Side, roundoff: float) -> tuple[str, ...]:
    """Return the parameters that have the same name on both sides, but values that rounding does not explain.

    They are other variables, as after a norm was folded into a convolution, so their gradients may differ.
    """
    mine, theirs = (_named_tensors(side, "backward") for side in (first, second))
    return tuple(
        name
        for name, tensor in mine.items()
        if name in theirs
        and theirs[name].shape == tensor.shape
        and Deviation.between(tensor.detach(), theirs[name].detach().to(tensor.device)).exceeds(
            tolerance(tensor.detach(), (), roundoff)
        )
    )


def _named_tensors(side: Side, phase: Phase) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for prefix, module in side.modules.items():
        named = module.named_buffers() if phase == "buffers" else module.named_parameters()
        tensors.update({".".join(filter(None, [prefix, name])): tensor for name, tensor in named})
    return tensors


def _equal_tensor(tensor: Tensor, others: dict[str, Tensor]) -> str | None:
    """Return the name of the first tensor with the same values, as a port has under another name."""
    value = tensor.detach().double().cpu()
    equal = (n for n, t in others.items() if t.shape == tensor.shape and torch.equal(t.detach().double().cpu(), value))
    return next(equal, None)
