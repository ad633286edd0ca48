"""How the loss joins output and target."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.exceptions import NotChecked
from nbdebug.graph.broadcasts import Broadcast, BroadcastWatch
from nbdebug.setup import Setup
from nbdebug.setup.trees import tensors, transform


@measurement
def broadcasts(setup: Setup, first_pass: Pass, output: Any) -> list[Broadcast]:
    """The calls of the loss in which output and target have different shapes and are stretched over each other."""
    if setup.loss_fn is None or not tensors(first_pass.batch.targets):
        raise NotChecked("the model computes its loss itself, or there is no target")
    detached = transform(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
    watch = BroadcastWatch(tensors(detached), tensors(first_pass.batch.targets))
    with watch:
        try:
            setup.loss_of(detached, first_pass.batch)
        except Exception as error:
            if not watch.found:
                raise NotChecked(f"the loss raised {type(error).__name__}: {error}") from error
    return watch.found
