"""What a model carries from one call over into the next, such as a hidden state that is never reset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.answers import written_out
from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.unregistered import OWN, inside
from nbdebug.exceptions import NotChecked
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import scores

Kept = dict[tuple[str, str], list[Tensor]]
ROUNDING = 1e-5


@dataclass(frozen=True)
class Carried:
    """An attribute of a module whose tensors are replaced in each call, and decide what the next one answers.

    ``spread`` is how far two answers to the same batch lie apart, as a share of the largest value.
    """

    path: str
    holder: nn.Module
    attribute: str
    spread: float


@measurement
def carried(setup: Setup, first_pass: Pass, output: Any) -> list[Carried]:
    """The plain attributes through which the answer to a batch, in eval mode, depends on what was asked before it.

    The batch is asked after itself, and after itself with its samples turned round.
    """
    before = kept(setup.eager)
    if not before or not isinstance(scores(output), Tensor):
        return []
    batch = first_pass.batch
    answer(setup, batch.take(range(batch.size)[::-1]))
    first, after = answer(setup, batch), kept(setup.eager)
    second, last = answer(setup, batch), kept(setup.eager)
    if first.shape != second.shape:
        return []
    spread = float((second - first).abs().max() / first.abs().max().clamp_min(1e-12))
    if not spread > ROUNDING:
        return []
    changed = [place for place in last if renewed(after.get(place, []), last[place])]
    return [Carried(path, setup.eager.get_submodule(path), name, spread) for path, name in changed]


def kept(model: nn.Module) -> Kept:
    """Copies of the tensors that plain attributes of modules hold."""
    found: Kept = {}
    for path, holder in model.named_modules():
        for attribute, value in vars(holder).items():
            things = () if attribute in OWN else inside(value, set())
            if copies := [t.detach().clone() for t in things if isinstance(t, Tensor) and t.is_floating_point()]:
                found[path, attribute] = copies
    return found


def renewed(before: list[Tensor], after: list[Tensor]) -> bool:
    """Whether most of what an attribute holds was replaced; a queue or a memory exchanges a part with each call."""
    pairs = [(a, b) for a, b in zip(before, after, strict=False) if a.shape == b.shape]
    changed = sum(int((a != b).sum()) for a, b in pairs)
    return 2 * changed > sum(t.numel() for t in after)


def answer(setup: Setup, batch: Batch) -> Tensor:
    """What the loss takes of the answer to a batch, in eval mode and with the same random numbers each time."""
    with torch.no_grad(), written_out(setup.eager, training=False):
        seed_all(0)
        try:
            found: Tensor = scores(setup.predict(batch))
        except Exception as error:
            raise NotChecked(f"in eval mode the model raised {type(error).__name__}: {error}") from error
    return found.detach().float()
