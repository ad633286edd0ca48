"""How targets stand to the sequence that the model reads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.errors import NotChecked
from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.setup.trees import tensors

MOSTLY = 0.9


@dataclass(frozen=True)
class Shift:
    """The input whose values are the targets, ``by`` so many steps earlier: 1 where the next one is to be told."""

    source: Tensor
    by: int
    length: int


@measurement
def shifted(first_pass: Pass) -> Shift:
    """The shift between the targets of the first batch and the input sequence that they come from."""
    target = first_pass.batch.target
    if not isinstance(target, Tensor) or target.dim() < 2 or target.shape[1] < 4:
        raise NotChecked("the target is no sequence")
    for source in tensors((first_pass.batch.args, first_pass.batch.kwargs)):
        if source.shape != target.shape or source.dtype != target.dtype:
            continue
        for by in (1, 0, 2):
            if agreement(source, target, by) >= MOSTLY:
                return Shift(source, by, target.shape[1])
    raise NotChecked("the targets are not the input sequence, moved by a step")


def agreement(source: Tensor, target: Tensor, by: int) -> float:
    """The share of targets that are counted and are the input ``by`` steps later."""
    later, wanted = source[:, by:], target[:, : target.shape[1] - by]
    counted = wanted != -100 if not wanted.is_floating_point() else torch.ones_like(wanted, dtype=torch.bool)
    if not bool(counted.any()) or bool((later == later.flatten()[0]).all()):
        return 0.0
    return float((later == wanted)[counted].float().mean())
