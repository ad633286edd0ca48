"""A copy of a model with weights that have learned nothing."""

from __future__ import annotations

import copy

import torch
from torch import nn


def randomized(model: nn.Module, seed: int = 0) -> nn.Module:
    """The copy: each layer as it was first drawn where it can be drawn anew, other weights in another order.

    Seeds torch's generators; call it where they are put back.
    """
    from nbdebug.preserve import seed_all

    twin = copy.deepcopy(model)
    seed_all(seed)
    drawn: set[int] = set()
    for module in twin.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
            drawn |= {id(one) for one in module.parameters(recurse=False)}
    with torch.no_grad():
        for parameter in twin.parameters():
            if id(parameter) not in drawn:
                order = torch.randperm(parameter.numel()).to(parameter.device)
                parameter.copy_(parameter.flatten()[order].reshape(parameter.shape))
    return twin
