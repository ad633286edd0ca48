"""How often a watch looks, whatever a step takes on this machine."""

from __future__ import annotations

from nbdebug.watching.watch import Watch

TINY = 1e-6  # a budget that pays for nothing


def seldom(watch: Watch) -> Watch:
    """A watch for whose looks next to no time is left, and which yet hears of all steps, as without a budget."""
    watch.time_budget.strict = False
    return watch
