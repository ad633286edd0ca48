"""A batch on which the loss is not finite, replayed to find where that begins."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.errors import NotChecked
from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Trace
from nbdebug.graph.origins import Origin, OriginWatch
from nbdebug.graph.tracing import attached
from nbdebug.setup import Batch, Setup


@dataclass(frozen=True)
class NonFinite:
    """A loss that is not finite, its batch, and the operation that began it, if one of this run did."""

    value: float
    number: int
    batch: Batch
    origin: Origin | None


@measurement
def non_finite(setup: Setup, batches: list[Batch], first_pass: Pass) -> NonFinite | None:
    """The first batch whose loss is NaN or Inf, of those looked at, with the operation that began it; or None."""
    if isinstance(setup.eager, torch.jit.ScriptModule):
        raise NotChecked("a compiled script hides its operations")
    if first_pass.value is None:
        raise NotChecked(first_pass.failed)
    for number, batch in enumerate(batches):
        state = torch.get_rng_state()
        value = first_pass.value if number == 0 else loss_of(setup, batch)
        if value is not None and not bool(value.isfinite()):
            torch.set_rng_state(state)
            return NonFinite(float(value.detach()), number, batch, replayed(setup, batch))
    return None


def loss_of(setup: Setup, batch: Batch) -> Tensor | None:
    """The loss of a batch; None where model or loss raise."""
    try:
        with torch.no_grad():
            return setup.run(batch)[1]
    except Exception:
        return None


def replayed(setup: Setup, batch: Batch) -> Origin | None:
    """The operation that began what is not finite in the loss, seen in a second run of the same batch."""
    trace = Trace()
    watch = OriginWatch(lambda: trace.running[-1] if trace.running else None)
    handles = attached(setup.eager, trace)
    try:
        with torch.enable_grad(), watch:
            loss = setup.run(batch)[1]
        return watch.origin(loss)
    finally:
        for handle in handles:
            handle.remove()
