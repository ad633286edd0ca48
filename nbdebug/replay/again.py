"""A frozen pass, run again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.evidence.gradient_origin import GradientOrigin, gradient_origin
from nbdebug.evidence.gradients import are_finite, measured, of
from nbdebug.evidence.non_finite import NonFinite, replayed
from nbdebug.evidence.parameters import Entry
from nbdebug.graph.origins import is_finite
from nbdebug.replay.incident import Incident
from nbdebug.replay.surroundings import met
from nbdebug.replay.ways import Way, ways
from nbdebug.setup import Setup


@dataclass(frozen=True)
class Again:
    """One pass that was run again: its loss, whether the gradient was finite, and whether it is what it was then.

    ``exact`` is None where the loss of the loop could not be run.
    """

    way: Way
    loss: float
    gradient: bool
    exact: bool | None

    @property
    def what(self) -> str | None:
        """What was not finite, if anything."""
        return "loss" if not math.isfinite(self.loss) else None if self.gradient else "gradient"

    def shows(self, phase: str) -> bool:
        """Whether what was not finite then is not now; of a gradient, a loss that is not finite shows it too."""
        return self.what == "loss" or self.what == phase


def truest(setup: Setup, incident: Incident) -> list[Again]:
    """All runs, those first that are not finite, of these those that give the loss that was seen."""

    def rank(one: Again) -> tuple[bool, bool, bool]:
        return not one.shows(incident.phase), not one.exact, not one.way.whole

    return sorted(tried(setup, incident), key=rank)


def tried(setup: Setup, incident: Incident) -> Iterator[Again]:
    """Every way of every pass, until one is not finite and gives the loss that was seen."""
    for one in incident.passes:
        for way in ways(setup, one):
            incident.put_back()
            try:
                found = run(way, one.loss)
            except Exception:
                continue
            yield found
            if found.exact and found.what:
                return


def run(way: Way, before: float | None) -> Again:
    """A pass with its gradient; ``before`` is the loss that was seen."""
    entries = [Entry((name,), p, ()) for name, p in way.setup.eager.named_parameters() if p.requires_grad]
    with met(way.call.random, way.call.casts), torch.enable_grad():
        loss = way.setup.run(way.batch)[1]
    fine = pulled(loss, entries) if entries and loss.requires_grad else True
    value = float(loss.detach())
    return Again(way, value, fine, same(value, before) if way.whole and before is not None else None)


def pulled(loss: Tensor, entries: list[Entry]) -> bool:
    """Whether the gradient of a loss is finite; a ``step_fn`` may have run the backward pass itself."""
    left = [one.parameter.grad for one in entries if one.parameter.grad is not None]
    return all(map(is_finite, left)) if left else are_finite(measured(of(loss, entries)))


def same(one: float, other: float) -> bool:
    """Whether two losses are the same, bit for bit or both NaN."""
    return one == other or (math.isnan(one) and math.isnan(other))


def origin(again: Again, incident: Incident) -> tuple[NonFinite, GradientOrigin | None]:
    """Where what is not finite begins, forward or backward, seen in one more run."""
    way, what = again.way, again.what or "loss"
    incident.put_back()
    with met(way.call.random, way.call.casts):
        began = replayed(way.setup, way.batch)
    seen = NonFinite(what, again.loss, 0, way.batch, began, incident.step)
    incident.put_back()
    with met(way.call.random, way.call.casts):
        return seen, gradient_origin(way.setup, seen)


def guilty(again: Again, incident: Incident, most: int = 64) -> list[int]:
    """The rows of the batch that are not finite when run alone; none where all are, or none can be run alone."""
    batch, rows = again.way.batch, []
    for row in range(min(batch.size, most)):
        incident.put_back()
        try:
            alone = run(replace(again.way, batch=batch.take([row])), None)
        except Exception:
            return []
        rows += [row] if alone.what else []
    return rows if len(rows) < batch.size else []
