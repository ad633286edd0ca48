"""A pass that the loop itself has given up because its loss was not finite."""

from __future__ import annotations

import math

from nbdebug.replay.replay import replay
from nbdebug.replay.ring import Ring


def abandoned(ring: Ring) -> None:
    """Makes an incident of the pass that was left before its backward pass, if it is not finite when run again."""
    incident = ring.left_open()
    if incident is None:
        return
    again = replay(ring.setup, incident).again
    if again is not None and not math.isfinite(again):
        incident.loss = incident.passes[-1].loss = again
        ring.incidents.append(incident)
