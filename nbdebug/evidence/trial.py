"""A few samples in eval mode, run again with one thing changed: what the interventions start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.errors import NotChecked
from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.graph.lockstep import Call, changes, recorded
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import scores
from nbdebug.setup.trees import tensors, transform

SIZES = (7, 5, 11, 6, 9, 4, 3, 2)


@dataclass(frozen=True)
class Trial:
    """The samples, how many they are, their output and the operations behind it; ``run`` runs others likewise."""

    batch: Batch
    size: int
    output: Tensor
    calls: list[Call]
    run: Callable[[Batch], tuple[Tensor, list[Call]]]


@measurement
def trial(setup: Setup, first_pass: Pass, output: Any) -> Trial:
    """Some samples of the first batch, run twice to see that the model repeats itself; it stays in eval mode."""
    if isinstance(setup.eager, torch.jit.ScriptModule):
        raise NotChecked("a scripted model hides its operations")
    setup.eager.eval()

    def run(batch: Batch) -> tuple[Tensor, list[Call]]:
        result, calls = recorded(setup.eager, lambda: setup.predict(batch))
        found = scores(result)
        if not isinstance(found, Tensor):
            raise NotChecked("the output holds no tensor")
        return found.detach(), calls

    batch = few(first_pass.batch)
    try:
        found, calls = run(batch)
    except NotChecked:
        raise
    except Exception:  # a model made for one size of batch
        batch = first_pass.batch
        found, calls = run(batch)
    if found.shape != (again := run(batch)[0]).shape or bool(changes(found, again).any()):
        raise NotChecked("in eval mode two passes with the same input and the same seed differ")
    return Trial(batch, batch.size, found, calls, run)


def few(batch: Batch) -> Batch:
    """So many samples that no other axis is as long, where that can be had."""
    taken = {length for t in tensors((batch.args, batch.kwargs, batch.targets)) for length in t.shape[1:]}
    size = next((n for n in SIZES if n <= batch.size and n not in taken), batch.size)
    try:
        return batch.take(range(size))
    except NotChecked:
        return batch


def with_inputs(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with every input tensor changed."""

    def apply(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, Tensor) else leaf

    args, kwargs = transform((batch.args, batch.kwargs), apply)
    return replace(batch, args=args, kwargs=kwargs)
