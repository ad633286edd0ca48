"""A batch on which the loss is not finite, replayed to find where that begins."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.gradients import Pull, are_finite, measured, of
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.exceptions import NotChecked
from nbdebug.graph.origins import Origin, OriginWatch
from nbdebug.graph.running import Running
from nbdebug.setup import Batch, Setup


@dataclass(frozen=True)
class NonFinite:
    """A batch whose loss or gradient is not finite, and the operation that began it, if one of the forward pass did."""

    what: str
    loss: float
    number: int
    batch: Batch
    origin: Origin | None
    step: int | None = None

    @property
    def named(self) -> str:
        """The batch in words: by the step of a loop that met it, else by its place in the loader."""
        return f"batch {self.number}" if self.step is None else f"step {self.step}"


@slow_measurement
def non_finite(
    setup: Setup, batches: list[Batch], parameters: list[Entry], loss: Tensor, pulls: dict[str, Pull]
) -> NonFinite | None:
    """The first batch whose loss or gradient is NaN or Inf, of those looked at, and where it began; or None."""
    if isinstance(setup.eager, torch.jit.ScriptModule):
        raise NotChecked("a compiled script hides its operations")
    entries = [one for one in parameters if one.name in pulls]
    for number, batch in enumerate(batches):
        state = torch.get_rng_state()
        value, found = (loss, pulls) if number == 0 else pulled(setup, batch, entries)
        if what := "loss" if not bool(value.isfinite()) else "gradient" if not are_finite(found) else None:
            torch.set_rng_state(state)
            return NonFinite(what, float(value.detach()), number, batch, replayed(setup, batch))
    return None


def pulled(setup: Setup, batch: Batch, entries: list[Entry]) -> tuple[Tensor, dict[str, Pull]]:
    """Loss and gradient of a batch; nothing of note where model, loss or backward pass raise."""
    try:
        loss = setup.run(batch)[1]
        return loss.detach(), measured(of(loss, entries)) if entries else {}
    except Exception:
        return torch.zeros(()), {}


def replayed(setup: Setup, batch: Batch) -> Origin | None:
    """The operation that began what is not finite in the loss, seen in a second run of the same batch."""
    running = Running()
    watch = OriginWatch(running)
    with running.inside(setup.eager), torch.enable_grad(), watch:
        loss = setup.run(batch)[1]
    return watch.origin(loss)
