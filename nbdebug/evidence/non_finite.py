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
    """A batch whose loss or gradient is not finite, and the operation that began it, if one of the forward pass did."""

    what: str
    loss: float
    number: int
    batch: Batch
    origin: Origin | None


@measurement
def non_finite(setup: Setup, batches: list[Batch], first_pass: Pass) -> NonFinite | None:
    """The first batch whose loss or gradient is NaN or Inf, of those looked at, and where it began; or None."""
    if isinstance(setup.eager, torch.jit.ScriptModule):
        raise NotChecked("a compiled script hides its operations")
    if first_pass.value is None:
        raise NotChecked(first_pass.failed)
    for number, batch in enumerate(batches):
        state = torch.get_rng_state()
        value = first_pass.value if number == 0 else loss_of(setup, batch)
        if value is not None and (what := wrong(setup, value)):
            torch.set_rng_state(state)
            return NonFinite(what, float(value.detach()), number, batch, replayed(setup, batch))
    return None


def loss_of(setup: Setup, batch: Batch) -> Tensor | None:
    """The loss of a batch; None where model or loss raise."""
    try:
        with torch.enable_grad():
            return setup.run(batch)[1]
    except Exception:
        return None


def wrong(setup: Setup, loss: Tensor) -> str | None:
    """Which of loss and gradient is not finite, if one is; the graph is kept."""
    if not bool(loss.isfinite()):
        return "loss"
    parameters = [p for p in setup.eager.parameters() if p.requires_grad]
    if not loss.requires_grad or not parameters:
        return None
    try:
        found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return None
    norms = [part.norm().float().to(setup.home) for part in found if part is not None and part.layout == torch.strided]
    return "gradient" if norms and not bool(torch.stack(norms).isfinite().all()) else None


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
